-- How a job ended. Index: the primary key.
SELECT outcome, attempt, lease FROM punctual_job_done WHERE job = ?1;
