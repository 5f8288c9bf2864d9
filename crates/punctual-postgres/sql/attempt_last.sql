-- The number of a job's last recorded attempt. Index: the primary key, one partition.
SELECT coalesce(max(attempt), 0) FROM {schema}.job_attempt WHERE job = $1;
