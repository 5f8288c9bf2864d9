-- Strikes a node off the list. Index: the primary key.
DELETE FROM punctual_node WHERE id = ?1;
