-- A node is alive, unless it was declared dead. Index: the primary keys.
UPDATE punctual_node
SET seen_at = ?2, seen_watch = coalesce((SELECT watched FROM punctual_leader WHERE role = ?3), 0)
WHERE id = ?1 AND dead_at IS NULL;
