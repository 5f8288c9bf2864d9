-- A tenant's schedules of a set, by name. Index: schedule_set_member; no name is empty.
SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
  set_aside, next_slot, last_slot, created_at, changed_at, spec, set_name,
  held_queue, held_since, held_until
FROM punctual_schedule
WHERE tenant = ?1 AND set_name = ?2 AND set_name <> '' AND name > ?3
ORDER BY name
LIMIT ?4;
