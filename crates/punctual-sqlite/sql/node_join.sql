-- Enters a node, or enters it again. Index: the primary key.
INSERT INTO punctual_node (id, name, version, queues, kinds, labels, joined_at, seen_at, dead_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, NULL)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, version = excluded.version, queues = excluded.queues, kinds = excluded.kinds,
  labels = excluded.labels, seen_at = excluded.seen_at, dead_at = NULL;
