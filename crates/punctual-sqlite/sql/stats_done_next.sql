-- The next queue and kind that have a dead letter. Index: job_done_place.
SELECT queue, kind FROM punctual_job_done
WHERE outcome = 2 AND (queue, kind) > (?1, ?2) ORDER BY queue, kind LIMIT 1;
