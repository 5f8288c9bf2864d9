-- Drops the attempts of a job. Index: the primary key.
DELETE FROM punctual_job_attempt WHERE job = ?1;
