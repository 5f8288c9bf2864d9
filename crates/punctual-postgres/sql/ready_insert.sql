-- Puts a job in line. Index: the primary key, which holds that it stands in line once.
INSERT INTO {schema}.job_ready (job, queue, kind, due_at, attempt, spent, crashes, priority, flags, rank)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $4 - $8 * interval '60 seconds');
