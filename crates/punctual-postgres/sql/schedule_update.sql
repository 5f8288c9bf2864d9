-- Writes a schedule that somebody changed; its definition only if it has another.
-- Index: the primary key. The row is locked by the caller.
UPDATE {schema}.schedule
SET owner = $2, revision = $3, stamp = $4, enabled = $5, pause_who = $6, pause_why = $7, pause_since = $8,
  pause_until = $9, set_aside = $10, next_slot = $11, last_slot = $12, changed_at = $13,
  spec = coalesce($14::text::json, spec), held_queue = $15, held_since = $16, held_until = $17
WHERE id = $1;
