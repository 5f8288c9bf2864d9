-- Jobs, newest first, each in the one place where it is. What drives the list is put in for the filter
-- at hand: see lists.rs. LATERAL with OFFSET 0 holds PostgreSQL to that order, one partition per job.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  r.attempt, r.due_at, t.attempt, t.due_at, l.attempt, l.due_at, d.attempt, d.outcome, d.finished_at, d.error
FROM {from}
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_ready AS b WHERE b.job = j.id OFFSET 0) AS r ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_timer AS b WHERE b.job = j.id OFFSET 0) AS t ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_lease AS b WHERE b.job = j.id OFFSET 0) AS l ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_done AS b WHERE b.job = j.id OFFSET 0) AS d ON true
WHERE {where}
ORDER BY {order}
LIMIT $1;
