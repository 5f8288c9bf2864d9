-- The unfinished jobs of schedules, oldest first and so many of each, and which of them wait for the
-- others. Index: the primary key of job_live, job_wait_job.
SELECT s.id, l.job, w.job IS NOT NULL
FROM unnest($1::uuid[]) AS s(id)
CROSS JOIN LATERAL (
  SELECT v.job FROM {schema}.job_live AS v WHERE v.schedule = s.id ORDER BY v.job LIMIT $2) AS l
LEFT JOIN LATERAL (SELECT b.job FROM {schema}.job_wait AS b WHERE b.job = l.job OFFSET 0) AS w ON true
ORDER BY s.id, l.job;
