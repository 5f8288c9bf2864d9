-- Takes unique keys that are free; sorted, so that no two callers wait for each other.
-- Index: the primary key. Waits for whoever is taking one of them.
INSERT INTO {schema}.job_key (tenant, key, job, hash, expires_at)
SELECT tenant, key, job, hash, expires_at
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::timestamptz[]) AS i(tenant, key, job, hash, expires_at)
ORDER BY tenant, key
ON CONFLICT DO NOTHING
RETURNING tenant, key;
