-- Strikes an ended job off its schedule's unfinished ones. Index: job_live_job.
DELETE FROM {schema}.job_live WHERE job = $1;
