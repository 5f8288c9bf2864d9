-- Takes one job from the timers. Index: job_timer_job.
DELETE FROM punctual_job_timer WHERE job = ?1
RETURNING queue, kind, due_at, priority, attempt, spent, crashes, flags;
