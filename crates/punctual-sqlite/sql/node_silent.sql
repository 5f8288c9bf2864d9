-- Nodes that have been silent for too long. There are few nodes, so no index.
SELECT id FROM punctual_node WHERE dead_at IS NULL AND seen_at < ?1 ORDER BY id;
