-- Notes an unfinished job of a schedule. Index: the primary key.
INSERT INTO {schema}.job_live (schedule, job) VALUES ($1, $2) ON CONFLICT DO NOTHING;
