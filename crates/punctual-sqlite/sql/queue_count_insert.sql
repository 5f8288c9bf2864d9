-- Stores the job counts of one queue and kind.
INSERT INTO punctual_queue_count
  (queue, kind, ready, scheduled, retrying, blocked, running, failed, oldest_due_at, counted_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);
