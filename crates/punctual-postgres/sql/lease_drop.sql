-- Ends the jobs of leases that cannot be read; of such a job only the recorded attempts are known.
-- Index: the primary key, job_key_job, job_live_job. The caller has locked the leases.
WITH bad AS (
  DELETE FROM {schema}.job_lease AS l USING unnest($1::uuid[]) AS i(job) WHERE l.job = i.job
  RETURNING l.job, l.queue, l.kind),
done AS (
  INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
  SELECT b.job, 2, $2, (
      SELECT coalesce(max(a.attempt), 0) FROM {schema}.job_attempt AS a WHERE a.job = b.job), 0, 0,
    b.queue, b.kind, $3
  FROM bad AS b
  ON CONFLICT DO NOTHING),
key AS (DELETE FROM {schema}.job_key AS k USING bad AS b WHERE k.job = b.job AND k.expires_at IS NULL)
DELETE FROM {schema}.job_live AS v USING bad AS b WHERE v.job = b.job;
