-- Takes a job that is freed from those that wait. Index: the primary key.
DELETE FROM punctual_job_wait WHERE schedule = ?1 AND job = ?2;
