-- Leases of live remote workers whose attempt exceeds its time: its own or the usual (?3), within what is left of
-- the budget of its job. Lengths that cannot be read count as none. The label (?2) is text of the list of labels.
-- Index: punctual_job_lease_node, the unique id of job, the primary key of the attempts.
SELECT job, lease, attempt, spent, crashes, claimed_at, cancel, queue, kind, max_attempts, budget, expires_at, used,
  facts, allowed
FROM (
  SELECT t.*, min(coalesce(t.timeout, ?3), coalesce(max(t.budget - t.used, 0), t.timeout, ?3)) AS allowed
  FROM (
    SELECT l.job, l.lease, l.attempt, l.spent, l.crashes, l.claimed_at, l.cancel, l.queue, l.kind,
      j.max_attempts, CASE WHEN j.timeout_us >= 0 THEN j.timeout_us END AS timeout,
      CASE WHEN j.budget_us >= 0 THEN j.budget_us END AS budget, j.expires_at, j.facts,
      CASE WHEN j.budget_us >= 0 THEN (
        SELECT coalesce(sum(max(a.ended_at - a.claimed_at, 0)), 0) FROM punctual_job_attempt AS a
        WHERE a.job = l.job AND a.attempt > j.fresh_after AND a.outcome <> 7) ELSE 0 END AS used
    FROM punctual_node AS n CROSS JOIN punctual_job_lease AS l ON l.node = n.id
    CROSS JOIN punctual_job AS j ON j.id = l.job
    WHERE n.dead_at IS NULL AND instr(n.labels, ?2) > 0) AS t) AS t
WHERE claimed_at + allowed < ?1
ORDER BY job
LIMIT ?4;
