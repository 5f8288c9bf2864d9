-- Drops the log of a job. Index: the primary key.
DELETE FROM punctual_job_log WHERE job = ?1;
