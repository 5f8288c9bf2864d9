-- What is in a queue, of one kind, each counted up to a bound.
-- Index: the primary key of job_ready, job_timer_place, job_wait_place, job_done_place.
SELECT line.ready, line.oldest,
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_job_timer WHERE queue = ?1 AND kind = ?2 AND attempt <= 0 LIMIT ?3)),
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_job_timer WHERE queue = ?1 AND kind = ?2 AND attempt > 0 LIMIT ?3)),
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_job_wait WHERE queue = ?1 AND kind = ?2 LIMIT ?3)),
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_job_done WHERE outcome = 2 AND queue = ?1 AND kind = ?2 LIMIT ?3))
FROM (
  SELECT count(*) AS ready, min(due_at) AS oldest
  FROM (
    SELECT due_at FROM punctual_job_ready WHERE queue = ?1 AND kind = ?2 ORDER BY rank, job LIMIT ?3)
) AS line;
