-- Strikes an ended job off its schedule's unfinished ones, and says whether one of them waits.
-- Index: job_live_job, then the primary key of job_wait.
DELETE FROM punctual_job_live WHERE job = ?1
RETURNING EXISTS (SELECT 1 FROM punctual_job_wait AS w WHERE w.schedule = punctual_job_live.schedule);
