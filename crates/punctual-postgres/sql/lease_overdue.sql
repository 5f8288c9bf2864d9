-- Leases of live remote workers whose attempt exceeds its time: its own or the usual ($3), within what is left of
-- the budget of its job. Lengths that cannot be read count as none. The label ($2) is text of the list of labels.
-- Index: job_lease_node and the primary keys, in this order of access. Locks nothing: a lease that is settled
-- meanwhile is fenced.
SELECT l.job, l.lease, l.attempt, l.spent, l.crashes, l.claimed_at, l.cancel, l.queue, l.kind,
  j.max_attempts, b.budget, j.expires_at, u.used, j.facts::text, t.allowed
FROM {schema}.node AS n
CROSS JOIN LATERAL (SELECT * FROM {schema}.job_lease AS x WHERE x.node = n.id OFFSET 0) AS l
CROSS JOIN LATERAL (SELECT * FROM {schema}.job AS y WHERE y.id = l.job OFFSET 0) AS j
CROSS JOIN LATERAL (
  SELECT CASE WHEN j.timeout_us >= 0 THEN j.timeout_us END AS timeout,
    CASE WHEN j.budget_us >= 0 THEN j.budget_us END AS budget) AS b
CROSS JOIN LATERAL (
  SELECT CASE WHEN b.budget IS NOT NULL THEN (
    SELECT coalesce(sum(greatest(extract(epoch FROM a.ended_at - a.claimed_at), 0)) * 1000000, 0)::bigint
    FROM {schema}.job_attempt AS a
    WHERE a.job = l.job AND a.attempt > j.fresh_after AND a.outcome <> 7) END AS used) AS u
CROSS JOIN LATERAL (
  SELECT least(coalesce(b.timeout, $3), CASE WHEN b.budget IS NOT NULL THEN greatest(b.budget - u.used, 0) END) AS allowed) AS t
WHERE n.dead_at IS NULL AND position($2 IN n.labels::text) > 0
  AND least(l.attempt, l.spent, l.crashes) >= 0 AND l.lease <> '00000000-0000-0000-0000-000000000000'
  AND l.claimed_at + t.allowed * interval '1 microsecond' < $1
ORDER BY l.job
LIMIT $4;
