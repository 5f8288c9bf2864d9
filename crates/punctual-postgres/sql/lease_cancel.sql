-- Asks the worker of a job to stop, once. Index: the primary key.
UPDATE {schema}.job_lease SET cancel = $2 WHERE job = $1 AND cancel IS NULL RETURNING job;
