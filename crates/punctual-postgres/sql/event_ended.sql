-- Jobs that have ended, oldest end first. Index: job_done_ended; what it finds is sorted.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  NULL::integer, NULL::timestamptz, NULL::integer, NULL::timestamptz, NULL::integer, NULL::timestamptz,
  NULL::integer, NULL::timestamptz, d.attempt, d.outcome, d.finished_at, d.error, d.job
FROM (
  SELECT finished_at, job, attempt, outcome, error FROM {schema}.job_done
  WHERE finished_at >= $1 AND finished_at <= $3 AND (finished_at, job) > ($1, $2)
  ORDER BY finished_at, job
  LIMIT $4) AS d
LEFT JOIN LATERAL (SELECT * FROM {schema}.job AS b WHERE b.id = d.job OFFSET 0) AS j ON true;
