-- All about one job, in the one place where it is. Index: the primary keys, one partition each.
SELECT j.id, j.tenant, j.queue, j.kind, j.priority, j.max_attempts, j.created_at, j.schedule, j.slot,
  r.attempt, r.due_at, t.attempt, t.due_at, w.attempt, w.due_at, l.attempt, l.due_at,
  d.attempt, d.outcome, d.finished_at, d.error,
  j.owner, j.tags::text, j.trace, coalesce(r.spent, t.spent, w.spent, l.spent, d.spent),
  coalesce(r.crashes, t.crashes, w.crashes, l.crashes, d.crashes), l.cancel IS NOT NULL,
  coalesce(l.node, d.node), coalesce(l.claimed_at, d.claimed_at), d.result::text, j.payload::text,
  l.progress_at, l.progress_percent, l.progress_note, l.lease, j.timeout_us, j.budget_us,
  j.fresh_after, j.expires_at
FROM {schema}.job AS j
LEFT JOIN {schema}.job_ready AS r ON r.job = $1
LEFT JOIN {schema}.job_timer AS t ON t.job = $1
LEFT JOIN {schema}.job_wait AS w ON w.job = $1
LEFT JOIN {schema}.job_lease AS l ON l.job = $1
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_done AS b WHERE b.job = j.id OFFSET 0) AS d ON true
WHERE j.id = $1;
