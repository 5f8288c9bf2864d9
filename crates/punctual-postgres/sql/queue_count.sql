-- Counts all unfinished and failed jobs by queue and kind. Reads each table once, so it runs on a connection
-- of its own with a longer timeout. Index: job_done_place.
SELECT queue, kind, sum(ready)::bigint, sum(scheduled)::bigint, sum(retrying)::bigint, sum(blocked)::bigint,
  sum(running)::bigint, sum(failed)::bigint, min(oldest)
FROM (
  SELECT queue, kind, count(*) AS ready, 0 AS scheduled, 0 AS retrying, 0 AS blocked, 0 AS running,
    0 AS failed, min(due_at) AS oldest
  FROM {schema}.job_ready GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, count(*) FILTER (WHERE attempt <= 0), count(*) FILTER (WHERE attempt > 0), 0, 0, 0,
    NULL
  FROM {schema}.job_timer GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, count(*), 0, 0, NULL FROM {schema}.job_wait GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, count(*), 0, NULL FROM {schema}.job_lease GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 0, count(*), NULL FROM {schema}.job_done
  WHERE outcome = 2 GROUP BY queue, kind) AS part
GROUP BY queue, kind
ORDER BY queue, kind;
