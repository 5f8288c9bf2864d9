-- Drops keys whose time is over, oldest first. Index: job_key_expiry.
DELETE FROM punctual_job_key WHERE (tenant, key) IN (
  SELECT tenant, key FROM punctual_job_key
  WHERE expires_at <= ?1
  ORDER BY expires_at, tenant, key
  LIMIT ?2);
