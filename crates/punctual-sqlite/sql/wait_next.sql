-- The waiting job with the first slot of the next schedule that has one, and whether an unfinished job that does not
-- wait is in its way. Index: the primary keys. Called again after each schedule, it passes over all the
-- other jobs that wait.
SELECT w.job, w.queue, w.kind, w.due_at, w.priority, w.attempt, w.spent, w.crashes, w.flags, w.schedule,
  EXISTS (
    SELECT 1 FROM punctual_job_live AS l
    WHERE l.schedule = w.schedule
      AND NOT EXISTS (
        SELECT 1 FROM punctual_job_wait AS o WHERE o.job = l.job))
FROM punctual_job_wait AS w
WHERE w.schedule > ?1
ORDER BY w.schedule, w.slot, w.job
LIMIT 1;
