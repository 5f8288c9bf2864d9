-- The queue of a job. Index: job_id.
SELECT queue FROM punctual_job WHERE id = ?1;
