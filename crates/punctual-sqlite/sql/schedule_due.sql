-- Schedules whose next slot is due, earliest first. Index: schedule_due, whose condition is repeated
-- here word for word.
SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
  set_aside, next_slot, last_slot, created_at, changed_at, spec
FROM punctual_schedule INDEXED BY punctual_schedule_due
WHERE enabled = 1 AND set_aside IS NULL AND next_slot IS NOT NULL
  AND (pause_since IS NULL OR pause_until IS NOT NULL)
  AND shard = ?1 AND next_slot <= ?2 AND (pause_since IS NULL OR pause_until <= ?2)
ORDER BY next_slot, id
LIMIT ?3;
