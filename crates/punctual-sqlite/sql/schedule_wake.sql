-- Makes schedules due whose slots are held for nodes of a queue, those that wait longest first. Index:
-- schedule_held.
UPDATE punctual_schedule SET held_until = ?2
WHERE rowid IN (
  SELECT rowid FROM punctual_schedule INDEXED BY punctual_schedule_held
  WHERE held_queue = ?1 AND held_until > ?2
  ORDER BY held_since, id
  LIMIT ?3);
