-- Who holds a unique key. Index: the primary key.
SELECT job, hash FROM punctual_job_key WHERE tenant = ?1 AND key = ?2;
