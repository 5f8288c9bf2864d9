-- Jobs, newest first, each in the one place where it is, and whether the filter asks for it. What drives
-- the list, and by which index, is put in for the filter at hand: see lists.rs. CROSS JOIN holds SQLite
-- to that order; there is no limit, because the reader stops when it has enough.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  r.attempt, r.due_at, t.attempt, t.due_at, w.attempt, w.due_at, l.attempt, l.due_at,
  d.attempt, d.outcome, d.finished_at, d.error,
  {asked}
FROM {from}
LEFT JOIN punctual_job_ready AS r ON r.job = j.id
LEFT JOIN punctual_job_timer AS t ON t.job = j.id
LEFT JOIN punctual_job_wait AS w ON w.job = j.id
LEFT JOIN punctual_job_lease AS l ON l.job = j.id
LEFT JOIN punctual_job_done AS d ON d.job = j.id
WHERE {within}
ORDER BY {order} DESC;
