-- Writes a job's body, unless it is there already. Index: the unique id.
INSERT INTO punctual_job (id, tenant, owner, queue, kind, priority, max_attempts, timeout_us, budget_us,
  expires_at, created_at, schedule, slot, facts, unique_key, key_scope, key_us, tags, trace, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
ON CONFLICT (id) DO NOTHING;
