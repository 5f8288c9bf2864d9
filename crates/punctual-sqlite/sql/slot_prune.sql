-- Drops rows of the ledger that need not be kept, oldest first. Index: slot_decided.
DELETE FROM punctual_slot WHERE (schedule, slot, run) IN (
  SELECT schedule, slot, run FROM punctual_slot
  WHERE decided_at < ?1
  ORDER BY decided_at, schedule, slot, run
  LIMIT ?2);
