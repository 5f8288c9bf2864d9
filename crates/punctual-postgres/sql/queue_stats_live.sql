-- Counts jobs by queue and kind, reading at most $1 rows: the caller discards the counts if there are more
-- jobs. Index: any of job_ready, job_timer, job_wait and job_lease; job_done_place.
SELECT queue, kind, sum(ready)::bigint, sum(scheduled)::bigint, sum(retrying)::bigint, sum(blocked)::bigint,
  sum(running)::bigint, sum(failed)::bigint, min(oldest)
FROM (
  SELECT queue, kind, 1 AS ready, 0 AS scheduled, 0 AS retrying, 0 AS blocked, 0 AS running, 0 AS failed,
    due_at AS oldest
  FROM {schema}.job_ready
  UNION ALL
  SELECT queue, kind, 0, CASE WHEN attempt <= 0 THEN 1 ELSE 0 END, CASE WHEN attempt > 0 THEN 1 ELSE 0 END,
    0, 0, 0, NULL
  FROM {schema}.job_timer
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 1, 0, 0, NULL FROM {schema}.job_wait
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 1, 0, NULL FROM {schema}.job_lease
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 0, 1, NULL FROM {schema}.job_done WHERE outcome = 2
  LIMIT $1) AS part
GROUP BY queue, kind
ORDER BY queue, kind;
