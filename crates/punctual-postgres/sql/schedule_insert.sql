-- Creates a schedule, unless its id or name is taken. Index: the primary key, schedule_name. Waits for
-- whoever is creating the same.
INSERT INTO {schema}.schedule (id, tenant, name, owner, shard, revision, stamp, enabled, next_slot,
  created_at, changed_at, spec, set_name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11::text::json, $12)
ON CONFLICT DO NOTHING
RETURNING id;
