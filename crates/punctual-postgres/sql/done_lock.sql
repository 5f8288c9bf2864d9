-- How a job ended, and after how many attempts. Index: the primary key, one partition. Locks it, since
-- the caller takes that end back.
SELECT outcome, attempt FROM {schema}.job_done WHERE job = $1 FOR UPDATE;
