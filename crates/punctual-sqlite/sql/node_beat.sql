-- A node is alive, unless it was declared dead. Index: the primary key.
UPDATE punctual_node SET seen_at = ?2 WHERE id = ?1 AND dead_at IS NULL;
