-- Is a job under this lease? Index: the primary key.
SELECT 1 FROM punctual_job_lease WHERE job = ?1 AND lease = ?2;
