-- Writes the end of a job that no attempt was under way of. Index: the primary key.
INSERT INTO {schema}.job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING;
