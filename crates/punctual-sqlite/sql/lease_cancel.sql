-- Asks the worker of a job to stop. Index: the primary key.
UPDATE punctual_job_lease SET cancel = ?2 WHERE job = ?1;
