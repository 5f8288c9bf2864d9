-- Drops a lease that cannot be read. Index: the primary key.
DELETE FROM punctual_job_lease WHERE job = ?1
RETURNING queue, kind, due_at, priority, attempt, spent, crashes, flags;
