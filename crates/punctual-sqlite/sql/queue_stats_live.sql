-- Counts jobs by queue and kind, reading at most ?1 rows: the caller discards the counts if there are more
-- jobs. Index: the primary keys of job_ready and job_lease; job_timer_place, job_wait_place, job_done_place.
SELECT queue, kind, sum(ready), sum(scheduled), sum(retrying), sum(blocked), sum(running), sum(failed),
  min(oldest)
FROM (
  SELECT queue, kind, 1 AS ready, 0 AS scheduled, 0 AS retrying, 0 AS blocked, 0 AS running, 0 AS failed,
    due_at AS oldest
  FROM punctual_job_ready
  UNION ALL
  SELECT queue, kind, 0, attempt <= 0, attempt > 0, 0, 0, 0, NULL FROM punctual_job_timer
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 1, 0, 0, NULL FROM punctual_job_wait
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 1, 0, NULL FROM punctual_job_lease
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 0, 1, NULL FROM punctual_job_done WHERE outcome = 2
  LIMIT ?1)
GROUP BY queue, kind
ORDER BY queue, kind;
