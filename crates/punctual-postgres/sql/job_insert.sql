-- Writes jobs with the places they begin in; one whose id is there already changes nothing, so that
-- a repeat after a lost answer is harmless. The caller names each id once.
-- Index: the primary keys. Inserts only, so no row is waited for but one with the same id.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
item AS MATERIALIZED (
  SELECT i.*, least(greatest(coalesce(i.due, c.now + coalesce(i.delay_us, 0) * interval '1 microsecond'), c.now),
    timestamptz '9999-12-30 22:00:00+00') AS due_at
  FROM clock AS c, unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[],
    $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::timestamptz[],
    $14::uuid[], $15::timestamptz[], $16::text[], $17::text[], $18::smallint[], $19::bigint[], $20::text[],
    $21::text[], $22::text[], $23::smallint[], $24::boolean[])
    AS i(id, tenant, owner, queue, kind, priority, max_attempts, timeout_us, budget_us, expires_us,
      delay_us, due, schedule, slot, facts, unique_key, key_scope, key_us, tags, trace, payload, flags, is_blocked)),
body AS (
  INSERT INTO {schema}.job (id, tenant, owner, queue, kind, priority, max_attempts, timeout_us,
    budget_us, expires_at, created_at, schedule, slot, facts, unique_key, key_scope, key_us, tags, trace, payload)
  SELECT id, tenant, owner, queue, kind, priority, max_attempts, timeout_us, budget_us,
    CASE WHEN expires_us IS NOT NULL
      THEN least(due_at + expires_us * interval '1 microsecond', timestamptz '9999-12-30 22:00:00+00') END,
    now, schedule, slot, facts::json, unique_key, key_scope, key_us, tags::jsonb, trace, payload::json
  FROM item, clock
  ON CONFLICT (id) DO NOTHING
  RETURNING id),
ready AS (
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT id, queue, due_at - priority * interval '60 seconds', kind, due_at, 0, 0, 0, priority, flags
  FROM item JOIN body USING (id), clock WHERE due_at <= now AND is_blocked IS NULL),
timer AS (
  INSERT INTO {schema}.job_timer (job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT id, due_at, queue, kind, 0, 0, 0, priority, flags
  FROM item JOIN body USING (id), clock WHERE due_at > now AND is_blocked IS NULL),
wait AS (
  INSERT INTO {schema}.job_wait (schedule, slot, job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT schedule, slot, id, due_at, queue, kind, 0, 0, 0, priority, flags
  FROM item JOIN body USING (id) WHERE is_blocked IS NOT NULL),
deadline AS (
  INSERT INTO {schema}.job_deadline (check_at, job)
  SELECT least(due_at + expires_us * interval '1 microsecond', now + interval '24 hours'), id
  FROM item JOIN body USING (id), clock WHERE expires_us IS NOT NULL),
live AS (
  INSERT INTO {schema}.job_live (schedule, job)
  SELECT schedule, id FROM item JOIN body USING (id) WHERE schedule IS NOT NULL)
SELECT now FROM clock;
