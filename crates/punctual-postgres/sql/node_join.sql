-- Enters a node, or enters it again. Index: the primary key.
INSERT INTO {schema}.node (id, name, version, queues, kinds, labels, joined_at, seen_at)
SELECT $1, $2, $3, $4::text::json, $5::text::json, $6::text::json, now, now
FROM (SELECT coalesce($7, clock_timestamp()) AS now) AS clock
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, version = excluded.version, queues = excluded.queues, kinds = excluded.kinds,
  labels = excluded.labels, seen_at = excluded.seen_at, dead_at = NULL
RETURNING seen_at;
