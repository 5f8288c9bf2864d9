-- The timers whose time has come, earliest first. Index: the primary key.
SELECT job, queue, kind, due_at, priority, attempt, spent, crashes, flags
FROM punctual_job_timer
WHERE due_at <= ?1
ORDER BY due_at, job
LIMIT ?2;
