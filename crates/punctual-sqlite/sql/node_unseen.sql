-- Nodes that were last seen at a time that is too far ahead to be true, since the clock was set back,
-- were seen now. There are few nodes, so no index.
UPDATE punctual_node SET seen_at = ?1 WHERE dead_at IS NULL AND seen_at > ?2;
