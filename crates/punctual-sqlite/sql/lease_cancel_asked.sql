-- Was the worker of a running job asked to stop? No row: it does not run. Index: the primary key.
SELECT cancel IS NOT NULL FROM punctual_job_lease WHERE job = ?1;
