-- Leases whose node is dead or unknown. Index: the primary keys; there are as many leases as jobs run.
SELECT l.job, l.lease, l.attempt, l.spent, l.crashes, l.claimed_at, l.cancel,
  l.queue, l.kind
FROM punctual_job_lease AS l LEFT JOIN punctual_node AS n ON n.id = l.node
WHERE n.id IS NULL OR n.dead_at IS NOT NULL
ORDER BY l.job
LIMIT ?1;
