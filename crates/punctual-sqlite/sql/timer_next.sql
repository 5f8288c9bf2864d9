-- When the next timer is due. Index: the primary key.
SELECT due_at FROM punctual_job_timer ORDER BY due_at, job LIMIT 1;
