-- Takes one job out of the line. Index: job_ready_job.
DELETE FROM punctual_job_ready WHERE job = ?1
RETURNING queue, kind, due_at, priority, attempt, spent, crashes, flags;
