-- The next queue and kind that have a job that waits for others. Index: job_wait_place.
SELECT queue, kind FROM punctual_job_wait
WHERE (queue, kind) > (?1, ?2) ORDER BY queue, kind LIMIT 1;
