-- Forgets the steps of a job. Index: the primary key, one partition.
DELETE FROM {schema}.job_step WHERE job = $1;
