-- Ends the jobs of leases that cannot be read; of such a job only the recorded attempts are known.
-- Index: the primary keys, job_key_job. The caller has locked the leases.
WITH bad AS (
  DELETE FROM {schema}.job_lease WHERE job = ANY($1::uuid[])
  RETURNING job, queue, kind),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT b.job, 2, $2, (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = b.job), 0, 0,
    b.queue, b.kind, $3
  FROM bad AS b
  ON CONFLICT DO NOTHING),
key AS (DELETE FROM {schema}.job_key WHERE job = ANY(ARRAY(SELECT job FROM bad)) AND expires_at IS NULL)
DELETE FROM {schema}.job_live WHERE job = ANY(ARRAY(SELECT job FROM bad));
