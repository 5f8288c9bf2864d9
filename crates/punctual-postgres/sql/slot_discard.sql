-- Deletes decisions at the watermark about slots after an instant, the newest ones. Index: the primary key.
-- The schedule is locked by the caller.
DELETE FROM {schema}.slot WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM {schema}.slot
  WHERE schedule = $1 AND slot > $2 AND run = 0
  ORDER BY slot DESC
  LIMIT $3))
RETURNING slot;
