-- Takes a job's end back. Index: the primary key, one partition.
DELETE FROM {schema}.job_done WHERE job = $1;
