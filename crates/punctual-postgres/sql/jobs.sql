-- Jobs, newest first, each in the one place where it is. What the list goes through is put in for the
-- filter at hand: see lists.rs. It is numbered in its order, with the row before; the last row that is
-- looked at comes back whether it is asked for or not, so that whoever reads knows where to go on.
-- LATERAL with OFFSET 0 holds PostgreSQL to that order, one partition per job.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  r.attempt, r.due_at, t.attempt, t.due_at, w.attempt, w.due_at, l.attempt, l.due_at,
  d.attempt, d.outcome, d.finished_at, d.error,
  s.number, s.before_job, s.before_ended
FROM (
  SELECT job, ended, row_number() OVER line AS number, lag(job) OVER line AS before_job,
    lag(ended) OVER line AS before_ended
  FROM ({source} LIMIT $2) AS looked_at
  WINDOW line AS (ORDER BY {line})) AS s
JOIN LATERAL (SELECT * FROM {schema}.job AS b WHERE b.id = s.job OFFSET 0) AS j ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_ready AS b WHERE b.job = j.id OFFSET 0) AS r ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_timer AS b WHERE b.job = j.id OFFSET 0) AS t ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_wait AS b WHERE b.job = j.id OFFSET 0) AS w ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_lease AS b WHERE b.job = j.id OFFSET 0) AS l ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_done AS b WHERE b.job = j.id OFFSET 0) AS d ON true
WHERE ({asked}) OR s.number = $2
ORDER BY {order}
LIMIT $1;
