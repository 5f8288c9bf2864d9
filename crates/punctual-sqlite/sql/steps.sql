-- The steps of a job, by name. Index: the primary key.
SELECT name, result, at FROM punctual_job_step WHERE job = ?1 ORDER BY name;
