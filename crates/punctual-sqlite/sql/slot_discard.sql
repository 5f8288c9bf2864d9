-- Deletes decisions at the watermark about slots after an instant, the newest ones. Index: the primary key.
DELETE FROM punctual_slot WHERE (schedule, slot, run) IN (
  SELECT schedule, slot, run FROM punctual_slot
  WHERE schedule = ?1 AND slot > ?2 AND run = 0
  ORDER BY slot DESC
  LIMIT ?3)
RETURNING slot;
