-- Deletes a finished job from the unfinished jobs of its schedule. Index: the primary key.
DELETE FROM {schema}.job_live WHERE job = $1;
