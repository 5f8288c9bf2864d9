-- Takes a unique key that is free, whose time is over, whose holder cannot be read, or that is the
-- job's own already.
-- Index: the primary key. One writer, so no row locks.
INSERT INTO punctual_job_key AS k (tenant, key, job, hash, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant, key) DO UPDATE
SET job = excluded.job, hash = excluded.hash, expires_at = excluded.expires_at
WHERE k.expires_at <= ?6 OR k.job = excluded.job OR length(k.job) <> 16;
