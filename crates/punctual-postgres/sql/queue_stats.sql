-- Reads a page of the stored job counts and when they were counted: no row if there are none, a row without
-- counts if the page is empty. Index: the primary key.
SELECT c.queue, c.kind, c.ready, c.scheduled, c.retrying, c.blocked, c.running, c.failed, c.oldest_due_at,
  stored.counted_at
FROM (SELECT counted_at FROM {schema}.queue_count ORDER BY queue, kind LIMIT 1) AS stored
LEFT JOIN LATERAL (
  SELECT queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at
  FROM {schema}.queue_count
  WHERE (queue, kind) > ($1, $2) ORDER BY queue, kind LIMIT $3) AS c ON true
ORDER BY c.queue, c.kind;
