-- Writes a schedule that somebody changed. Index: the primary key. The row is locked by the caller.
UPDATE {schema}.schedule
SET owner = $2, revision = $3, stamp = $4, enabled = $5, pause_who = $6, pause_why = $7, pause_since = $8,
  pause_until = $9, set_aside = $10, next_slot = $11, changed_at = $12, spec = $13::text::json
WHERE id = $1;
