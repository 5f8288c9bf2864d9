-- Asks the worker of a job to stop, once, unless somebody has the lease locked: a handler that settles it in a
-- transaction of its own keeps nobody waiting who fires. Index: the primary key. Waits for no row: SKIP LOCKED.
WITH held AS MATERIALIZED (
  SELECT job FROM {schema}.job_lease WHERE job = $1 AND cancel IS NULL FOR NO KEY UPDATE SKIP LOCKED)
UPDATE {schema}.job_lease SET cancel = $2 WHERE job = ANY(ARRAY(SELECT job FROM held)) RETURNING job;
