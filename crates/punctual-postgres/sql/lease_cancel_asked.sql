-- Was the worker of a running job asked to stop? Index: the primary key.
SELECT job FROM {schema}.job_lease WHERE job = $1 AND cancel IS NOT NULL;
