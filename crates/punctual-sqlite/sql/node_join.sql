-- Enters a node, or enters it again. Index: the primary keys.
INSERT INTO punctual_node (id, name, version, queues, kinds, labels, joined_at, seen_at, seen_watch, dead_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, coalesce((SELECT watched FROM punctual_leader WHERE role = ?8), 0), NULL)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, version = excluded.version, queues = excluded.queues, kinds = excluded.kinds,
  labels = excluded.labels, seen_at = excluded.seen_at, seen_watch = excluded.seen_watch, dead_at = NULL;
