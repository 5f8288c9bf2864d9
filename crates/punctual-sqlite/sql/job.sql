-- All about one job, in the one place where it is. Index: the unique id and those by job.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  r.attempt, r.due_at, t.attempt, t.due_at, w.attempt, w.due_at, l.attempt, l.due_at,
  d.attempt, d.outcome, d.finished_at, d.error,
  j.owner, j.tags, j.trace, coalesce(r.spent, t.spent, w.spent, l.spent, d.spent),
  coalesce(r.crashes, t.crashes, w.crashes, l.crashes, d.crashes), l.cancel IS NOT NULL,
  coalesce(l.node, d.node), coalesce(l.claimed_at, d.claimed_at), d.result, j.payload,
  l.progress_at, l.progress_percent, l.progress_note, l.lease, j.timeout_us, j.budget_us,
  j.fresh_after, j.expires_at
FROM punctual_job AS j
LEFT JOIN punctual_job_ready AS r ON r.job = j.id
LEFT JOIN punctual_job_timer AS t ON t.job = j.id
LEFT JOIN punctual_job_wait AS w ON w.job = j.id
LEFT JOIN punctual_job_lease AS l ON l.job = j.id
LEFT JOIN punctual_job_done AS d ON d.job = j.id
WHERE j.id = ?1;
