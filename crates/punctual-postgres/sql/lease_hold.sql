-- What time it is, if a job is under this lease. Index: the primary key. Locks the lease: until the end
-- of the transaction nobody settles it, and no other step of the job is saved.
SELECT coalesce($1, clock_timestamp()) FROM {schema}.job_lease WHERE job = $2 AND lease = $3 FOR NO KEY UPDATE;
