-- Is a node there that was not declared dead? Index: the primary key.
SELECT 1 FROM punctual_node WHERE id = ?1 AND dead_at IS NULL;
