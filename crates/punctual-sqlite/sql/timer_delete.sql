-- Drops the head of the timers, up to and with the last one that was promoted. Index: the primary key.
DELETE FROM punctual_job_timer WHERE (due_at, job) <= (?1, ?2);
