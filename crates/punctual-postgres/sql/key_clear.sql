-- Frees keys whose time is over, and a job's own that it holds for a fixed time, which begins anew. One that it
-- holds until it ends stays: the job is there, its settle may wait for this, and would not see the key
-- taken again. Not DO UPDATE … WHERE on taking them: that locks the holder's row even when it changes
-- nothing, and so the holder's settle.
-- Index: the primary key; keys come sorted.
DELETE FROM {schema}.job_key AS k
USING unnest($1::text[], $2::text[], $3::uuid[]) AS i(tenant, key, job)
WHERE k.tenant = i.tenant AND k.key = i.key AND (k.expires_at <= $4 OR k.job = i.job AND k.expires_at IS NOT NULL);
