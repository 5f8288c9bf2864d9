-- Lets go of a key that a job holds. Index: the primary key.
DELETE FROM {schema}.job_key WHERE tenant = $1 AND key = $2 AND job = $3;
