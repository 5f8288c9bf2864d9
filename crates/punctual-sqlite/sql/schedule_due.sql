-- Schedules that have something to decide since an instant within a range, earliest first.
-- Index: schedule_due.
SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
  set_aside, next_slot, last_slot, created_at, changed_at, spec, set_name,
  held_queue, held_since, held_until
FROM punctual_schedule INDEXED BY punctual_schedule_due
WHERE shard = ?1 AND due_at > ?2 AND due_at <= ?3
ORDER BY due_at, id
LIMIT ?4;
