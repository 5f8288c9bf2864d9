-- Takes a job's end back, or drops it. Index: the primary key.
DELETE FROM punctual_job_done WHERE job = ?1;
