-- The number of a job's last recorded attempt. Index: the primary key.
SELECT coalesce(max(attempt), 0) FROM punctual_job_attempt WHERE job = ?1;
