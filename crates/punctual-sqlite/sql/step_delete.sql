-- Forgets the steps of a job. Index: the primary key.
DELETE FROM punctual_job_step WHERE job = ?1;
