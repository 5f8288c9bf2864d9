-- The steps of a job, by name. Index: the primary key, one partition.
SELECT name, result::text, at FROM {schema}.job_step WHERE job = $1 ORDER BY name;
