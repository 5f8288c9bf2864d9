-- Keeps a step; one of that name that cannot be read gives way. Index: the primary key.
INSERT INTO punctual_job_step (job, name, at, result) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job, name) DO UPDATE SET at = excluded.at, result = excluded.result;
