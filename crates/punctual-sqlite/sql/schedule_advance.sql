-- Moves a watermark, and forgets a pause that has ended before ?4: what it skipped is written down now.
-- By rowid; the stamp was compared in this transaction, and there is one writer.
UPDATE punctual_schedule
SET stamp = ?5, next_slot = ?2, last_slot = ?3, held_queue = ?6, held_since = ?7, held_until = ?8,
  pause_who = CASE WHEN pause_until <= ?4 THEN NULL ELSE pause_who END,
  pause_why = CASE WHEN pause_until <= ?4 THEN NULL ELSE pause_why END,
  pause_since = CASE WHEN pause_until <= ?4 THEN NULL ELSE pause_since END,
  pause_until = CASE WHEN pause_until <= ?4 THEN NULL ELSE pause_until END
WHERE rowid = ?1;
