-- Counts all unfinished and failed jobs by queue and kind. Reads each table once, in the order of an index.
-- Index: the primary key of job_ready, job_timer_place, job_wait_place, job_done_place.
SELECT queue, kind, sum(ready), sum(scheduled), sum(retrying), sum(blocked), sum(running), sum(failed),
  min(oldest)
FROM (
  SELECT queue, kind, count(*) AS ready, 0 AS scheduled, 0 AS retrying, 0 AS blocked, 0 AS running,
    0 AS failed, min(due_at) AS oldest
  FROM punctual_job_ready GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, sum(attempt <= 0), sum(attempt > 0), 0, 0, 0, NULL
  FROM punctual_job_timer GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, count(*), 0, 0, NULL FROM punctual_job_wait GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, count(*), 0, NULL FROM punctual_job_lease GROUP BY queue, kind
  UNION ALL
  SELECT queue, kind, 0, 0, 0, 0, 0, count(*), NULL FROM punctual_job_done
  WHERE outcome = 2 GROUP BY queue, kind)
GROUP BY queue, kind
ORDER BY queue, kind;
