-- Drops the steps and logs of jobs that were dropped, where they lie in no day. After those: whoever was
-- writing a line had locked its job, and only a later statement sees the line. Index: the primary keys.
WITH steps AS (DELETE FROM {schema}.job_step_default WHERE job = ANY($1))
DELETE FROM {schema}.job_log_default WHERE job = ANY($1);
