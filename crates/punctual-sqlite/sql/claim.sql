-- The head of one queue with its bodies; the arm of the inner query is repeated for each kind, and
-- SQLite merges the arms by rank, so that kinds nobody asked for cost nothing.
-- Index: the primary key of job_ready, then the unique id of job. One writer, so no row locks.
-- The order of the answer is no promise of SQL, so the caller sorts what it got.
SELECT r.rank, r.job, r.queue, r.kind, r.due_at, r.priority, r.attempt, r.spent, r.crashes, r.flags,
  j.tenant, j.owner, j.max_attempts, j.timeout_us, j.budget_us, j.expires_at, j.schedule, j.slot,
  j.facts, j.tags, j.trace, j.payload
FROM (
  {arms}
  ORDER BY rank, job
  LIMIT ?2) AS r
LEFT JOIN punctual_job AS j ON j.id = r.job;
