-- Moves a watermark. By rowid; the stamp was compared in this transaction, and there is one writer.
UPDATE punctual_schedule SET stamp = stamp + 1, next_slot = ?2, last_slot = ?3 WHERE rowid = ?1;
