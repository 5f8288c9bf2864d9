-- The start deadlines to check, earliest first, and what their jobs say: none of a job that is not there.
-- Index: the primary key, the unique id of the job, and the primary key of its end.
SELECT c.check_at, c.job, j.expires_at, d.job IS NOT NULL
FROM (
  SELECT check_at, job FROM punctual_job_deadline
  WHERE check_at < ?1
  ORDER BY check_at, job
  LIMIT ?2) AS c
LEFT JOIN punctual_job AS j ON j.id = c.job
LEFT JOIN punctual_job_done AS d ON d.job = c.job
ORDER BY c.check_at, c.job;
