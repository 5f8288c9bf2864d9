-- The attempts under way, and those of jobs from an id on, all up to another id, newest job first. Each
-- part is read in the order of its primary key, partition by partition, and no further than needed. The
-- outcome of a success has code 1.
SELECT x.job, x.attempt, x.node, x.claimed_at, x.ended_at, x.outcome, j.queue, j.kind, j.schedule, j.slot
FROM (
  SELECT * FROM (
    SELECT job, attempt, node, claimed_at, NULL::timestamptz AS ended_at, NULL::smallint AS outcome
    FROM {schema}.job_lease
    WHERE job < $3
    ORDER BY job DESC
    LIMIT $2) AS running
  UNION ALL
  SELECT * FROM (
    SELECT job, attempt, node, claimed_at, finished_at, 1::smallint
    FROM {schema}.job_done
    WHERE job >= $1 AND job < $3 AND outcome = 1 AND claimed_at IS NOT NULL
    ORDER BY job DESC
    LIMIT $2) AS succeeded
  UNION ALL
  SELECT * FROM (
    SELECT job, attempt, node, claimed_at, ended_at, outcome
    FROM {schema}.job_attempt
    WHERE job >= $1 AND job < $3
    ORDER BY job DESC, attempt DESC
    LIMIT $2) AS tried) AS x
JOIN LATERAL (SELECT * FROM {schema}.job AS b WHERE b.id = x.job OFFSET 0) AS j ON true
ORDER BY x.job DESC, x.attempt DESC
LIMIT $2;
