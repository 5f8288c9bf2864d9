-- Frees keys whose time is over, and a job's own that it holds for a fixed time, which begins anew. One that it
-- holds until it ends stays: the job is there, its settle may wait for this, and would not see the key
-- taken again. Not DO UPDATE … WHERE on taking them: that locks the holder's row even when it changes
-- nothing, and so the holder's settle.
-- Index: the primary key, once per key; keys come sorted. Then ctid, which is safe because these rows are never updated.
-- CASE, because OR would allow job_key_expiry, which begins with another column.
WITH held AS MATERIALIZED (
  SELECT k.tid
  FROM unnest($1::text[], $2::text[], $3::uuid[]) AS i(tenant, key, job)
  CROSS JOIN LATERAL (
    SELECT x.ctid AS tid FROM {schema}.job_key AS x
    WHERE x.tenant = i.tenant AND x.key = i.key
      AND CASE WHEN x.job = i.job THEN x.expires_at IS NOT NULL ELSE x.expires_at <= $4 END
    FOR UPDATE) AS k)
DELETE FROM {schema}.job_key WHERE ctid = ANY(ARRAY(SELECT tid FROM held));
