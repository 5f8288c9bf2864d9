-- Takes one job from those that wait for others. Index: job_wait_job.
DELETE FROM punctual_job_wait WHERE job = ?1
RETURNING queue, kind, due_at, priority, attempt, spent, crashes, flags, schedule, slot;
