-- Declares a node dead. Index: the primary key.
UPDATE punctual_node SET dead_at = ?2 WHERE id = ?1;
