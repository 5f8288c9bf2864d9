-- Schedules whose next slot is due, earliest first, with the first of their unfinished jobs. Index: schedule_due,
-- whose condition is repeated here word for word; the primary key of job_live.
WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now)
SELECT s.*, c.now, (
  SELECT array_agg(v.job ORDER BY v.job) FROM (
    SELECT job FROM {schema}.job_live WHERE schedule = s.id ORDER BY job LIMIT $4) AS v)
FROM clock AS c
LEFT JOIN LATERAL (
  SELECT id, tenant, name, owner, shard, revision, stamp, enabled, pause_who, pause_why, pause_since, pause_until,
  set_aside, next_slot, last_slot, created_at, changed_at, spec::text
  FROM {schema}.schedule
  WHERE enabled AND set_aside IS NULL AND next_slot IS NOT NULL
    AND (pause_since IS NULL OR pause_until IS NOT NULL)
    AND shard = $2 AND next_slot <= (SELECT now FROM clock)
    AND (pause_since IS NULL OR pause_until <= (SELECT now FROM clock))
  ORDER BY next_slot, id
  LIMIT $3) AS s ON true;
