-- One schedule, for a change. Index: the primary key. Locks it.
SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
  set_aside, next_slot, last_slot, created_at, changed_at, spec::text, set_name,
  held_queue, held_since, held_until
FROM {schema}.schedule WHERE id = $1 FOR UPDATE;
