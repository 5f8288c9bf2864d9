-- Reads a page of the stored job counts. Index: the primary key.
SELECT queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at
FROM punctual_queue_count
WHERE (queue, kind) > (?1, ?2) ORDER BY queue, kind LIMIT ?3;
