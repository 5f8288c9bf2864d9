-- How many steps a job has. Index: the primary key.
SELECT count(*) FROM punctual_job_step WHERE job = ?1;
