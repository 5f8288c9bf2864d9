-- Makes schedules due whose slots are held for nodes of a queue. Index: schedule_held.
UPDATE punctual_schedule SET held_until = ?2
WHERE rowid IN (
  SELECT rowid FROM punctual_schedule INDEXED BY punctual_schedule_held
  WHERE held_queue = ?1
  ORDER BY id
  LIMIT ?3);
