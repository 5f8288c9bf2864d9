-- Jobs that have ended, oldest end first. Indexes: job_done_finished and job_done_died, merged.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  d.attempt, d.outcome, d.finished_at, d.error, d.job
FROM (
  SELECT finished_at, job, attempt, outcome, error
  FROM punctual_job_done INDEXED BY punctual_job_done_finished
  WHERE outcome <> 2 AND (finished_at, job) > (?1, ?2) AND finished_at <= ?3
  UNION ALL
  SELECT finished_at, job, attempt, outcome, error
  FROM punctual_job_done INDEXED BY punctual_job_done_died
  WHERE outcome = 2 AND (finished_at, job) > (?1, ?2) AND finished_at <= ?3
  ORDER BY 1, 2
  LIMIT ?4) AS d
LEFT JOIN punctual_job AS j ON j.id = d.job;
