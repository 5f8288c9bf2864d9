-- The next queue and kind that have a timer. Index: job_timer_place.
SELECT queue, kind FROM punctual_job_timer
WHERE (queue, kind) > (?1, ?2) ORDER BY queue, kind LIMIT 1;
