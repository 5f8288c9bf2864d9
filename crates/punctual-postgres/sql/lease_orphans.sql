-- Leases whose node is dead or unknown, with what decides whether their jobs are tried again.
-- Index: the primary keys; there are as many leases as jobs run. Locks them, and passes over what is
-- being settled.
SELECT l.job, l.lease, l.attempt, l.spent, l.crashes, l.claimed_at, l.cancel,
  j.max_attempts, j.budget_us, j.expires_at,
  CASE WHEN j.budget_us IS NOT NULL THEN (
    SELECT coalesce(sum(greatest(extract(epoch FROM a.ended_at - a.claimed_at), 0)) * 1000000, 0)::bigint
    FROM {schema}.job_attempt AS a
    WHERE a.job = l.job AND a.attempt > j.fresh_after AND a.outcome <> 7) END AS used,
  l.queue, l.kind
FROM {schema}.job_lease AS l
LEFT JOIN {schema}.node AS n ON n.id = l.node
LEFT JOIN LATERAL (SELECT * FROM {schema}.job AS b WHERE b.id = l.job OFFSET 0) AS j ON true
WHERE n.id IS NULL OR n.dead_at IS NOT NULL
ORDER BY l.job
LIMIT $1
FOR UPDATE OF l SKIP LOCKED;
