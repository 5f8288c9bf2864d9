-- Nodes that have been silent for too long, while the role was led. There are few nodes, so no index.
SELECT id FROM punctual_node WHERE dead_at IS NULL AND seen_at < ?1 AND seen_watch <= ?2 ORDER BY id;
