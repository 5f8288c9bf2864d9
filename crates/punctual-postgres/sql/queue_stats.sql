-- What waits and runs, by queue and kind, each counted up to a bound ($3). Of each queue so many ($4) are
-- looked at, first in line first. Index: job_ready_order, job_timer_place, job_wait_place, job_done_place; the
-- steps of the recursions go from queue to queue and from place to place. All of one snapshot.
WITH RECURSIVE line (queue) AS (
  (SELECT queue FROM {schema}.job_ready WHERE queue >= $1 ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT x.queue FROM {schema}.job_ready AS x WHERE x.queue > p.queue ORDER BY x.queue LIMIT 1)
  FROM line AS p WHERE p.queue IS NOT NULL),
timer (queue, kind) AS (
  (SELECT queue, kind FROM {schema}.job_timer WHERE queue >= $1 ORDER BY queue, kind LIMIT 1)
  UNION ALL
  SELECT n.queue, n.kind FROM timer AS p CROSS JOIN LATERAL (
    SELECT x.queue, x.kind FROM {schema}.job_timer AS x
    WHERE (x.queue, x.kind) > (p.queue, p.kind) ORDER BY x.queue, x.kind LIMIT 1) AS n),
wait (queue, kind) AS (
  (SELECT queue, kind FROM {schema}.job_wait WHERE queue >= $1 ORDER BY queue, kind LIMIT 1)
  UNION ALL
  SELECT n.queue, n.kind FROM wait AS p CROSS JOIN LATERAL (
    SELECT x.queue, x.kind FROM {schema}.job_wait AS x
    WHERE (x.queue, x.kind) > (p.queue, p.kind) ORDER BY x.queue, x.kind LIMIT 1) AS n),
dead (queue, kind) AS (
  (SELECT queue, kind FROM {schema}.job_done WHERE outcome = 2 AND queue >= $1 ORDER BY queue, kind LIMIT 1)
  UNION ALL
  SELECT n.queue, n.kind FROM dead AS p CROSS JOIN LATERAL (
    SELECT x.queue, x.kind FROM {schema}.job_done AS x
    WHERE x.outcome = 2 AND (x.queue, x.kind) > (p.queue, p.kind) ORDER BY x.queue, x.kind LIMIT 1) AS n)
SELECT queue, kind, sum(ready)::bigint, sum(scheduled)::bigint, sum(retrying)::bigint, sum(blocked)::bigint,
  sum(running)::bigint, sum(failed)::bigint, min(oldest)
FROM (
  SELECT queue, kind, count(*) AS ready, 0 AS scheduled, 0 AS retrying, 0 AS blocked, 0 AS running,
    0 AS failed, min(due_at) AS oldest
  FROM (
    SELECT p.queue, x.kind, x.due_at,
      row_number() OVER (PARTITION BY p.queue, x.kind ORDER BY x.rank, x.job) AS number
    FROM line AS p CROSS JOIN LATERAL (
      SELECT b.kind, b.due_at, b.rank, b.job FROM {schema}.job_ready AS b
      WHERE b.queue = p.queue ORDER BY b.rank, b.job LIMIT $4) AS x) AS numbered
  WHERE number <= $3
  GROUP BY queue, kind
  UNION ALL
  SELECT p.queue, p.kind, 0,
    (SELECT count(*) FROM (SELECT FROM {schema}.job_timer AS x
      WHERE x.queue = p.queue AND x.kind = p.kind AND x.attempt <= 0 LIMIT $3) AS c),
    (SELECT count(*) FROM (SELECT FROM {schema}.job_timer AS x
      WHERE x.queue = p.queue AND x.kind = p.kind AND x.attempt > 0 LIMIT $3) AS c), 0, 0, 0, NULL
  FROM timer AS p
  UNION ALL
  SELECT p.queue, p.kind, 0, 0, 0,
    (SELECT count(*) FROM (SELECT FROM {schema}.job_wait AS x
      WHERE x.queue = p.queue AND x.kind = p.kind LIMIT $3) AS c), 0, 0, NULL
  FROM wait AS p
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, least(count(*), $3), 0, NULL
  FROM {schema}.job_lease WHERE queue >= $1 GROUP BY queue, kind
  UNION ALL
  SELECT p.queue, p.kind, 0, 0, 0, 0, 0,
    (SELECT count(*) FROM (SELECT FROM {schema}.job_done AS x
      WHERE x.outcome = 2 AND x.queue = p.queue AND x.kind = p.kind LIMIT $3) AS c), NULL
  FROM dead AS p) AS part
WHERE (queue, kind) > ($1, $2)
GROUP BY queue, kind
ORDER BY queue, kind
LIMIT $5;
