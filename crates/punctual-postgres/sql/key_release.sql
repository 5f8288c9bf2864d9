-- Frees the keys of a job that has ended, but for those held for a fixed time. Index: job_key_job.
DELETE FROM {schema}.job_key WHERE job = $1 AND expires_at IS NULL;
