-- Drops ended jobs that need not be kept, oldest first, where they lie in no day: a day goes whole.
-- Tells which, since what was noted of them is dropped next.
-- Index: job_done_finished, job_done_died of the default partition; the primary keys.
WITH old AS MATERIALIZED (
  (SELECT finished_at, job FROM {schema}.job_done_default
   WHERE outcome <> 2 AND finished_at < $1 ORDER BY finished_at, job LIMIT $3)
  UNION ALL
  (SELECT finished_at, job FROM {schema}.job_done_default
   WHERE outcome = 2 AND finished_at < $2 ORDER BY finished_at, job LIMIT $3)
  ORDER BY 1, 2 LIMIT $3),
done AS (DELETE FROM {schema}.job_done_default WHERE job = ANY(ARRAY(SELECT job FROM old)) RETURNING job),
attempts AS (DELETE FROM {schema}.job_attempt_default WHERE job = ANY(ARRAY(SELECT job FROM old))),
bodies AS (DELETE FROM {schema}.job_default WHERE id = ANY(ARRAY(SELECT job FROM old)))
SELECT job FROM done;
