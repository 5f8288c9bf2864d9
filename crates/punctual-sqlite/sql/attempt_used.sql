-- Time that the attempts of a job took since it was last requeued, in microseconds, without snoozes
-- (outcome 7), of which only the newest is kept. Index: the primary key, the unique id of job.
SELECT coalesce(sum(max(ended_at - claimed_at, 0)), 0)
FROM punctual_job_attempt
WHERE job = ?1 AND attempt > (SELECT fresh_after FROM punctual_job WHERE id = ?1) AND outcome <> 7;
