-- What a step came to. Index: the primary key.
SELECT result FROM punctual_job_step WHERE job = ?1 AND name = ?2;
