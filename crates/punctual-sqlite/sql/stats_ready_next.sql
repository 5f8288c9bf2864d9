-- The next queue and kind that have a job in line. Index: the primary key.
SELECT queue, kind FROM punctual_job_ready
WHERE (queue, kind) > (?1, ?2) ORDER BY queue, kind LIMIT 1;
