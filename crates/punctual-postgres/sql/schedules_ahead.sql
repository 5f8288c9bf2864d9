-- Enabled schedules whose last decided slot is later than an instant, the furthest ahead first. The ledger
-- row of that slot was decided later than the instant: examines the newest such rows, and counts them. Index: slot_decided, then the primary key of schedule.
WITH newest AS MATERIALIZED (
  SELECT schedule FROM {schema}.slot WHERE decided_at > $1 ORDER BY decided_at DESC LIMIT $2)
SELECT s.id, s.tenant, s.name, s.owner, s.shard, s.revision, s.stamp, s.enabled, s.pause_who, s.pause_why, s.pause_since,
  s.pause_until, s.set_aside, s.next_slot, s.last_slot, s.created_at, s.changed_at, s.spec::text, s.set_name,
  s.held_queue, s.held_since, s.held_until,
  (SELECT count(*) FROM newest)
FROM {schema}.schedule AS s
WHERE s.id = ANY(ARRAY(SELECT DISTINCT schedule FROM newest)) AND s.last_slot > $1 AND s.enabled
ORDER BY s.last_slot DESC, s.id
LIMIT $3;
