-- Enabled schedules whose last decided slot is later than an instant, the furthest ahead first. The ledger
-- row of that slot was decided later than the instant: examines the newest such rows, and counts them. Index: slot_decided, then the schedule by its id.
WITH newest AS MATERIALIZED (
  SELECT schedule FROM punctual_slot WHERE decided_at > ?1 ORDER BY decided_at DESC LIMIT ?2)
SELECT s.id, s.tenant, s.name, s.owner, s.shard, s.revision, s.stamp, s.enabled, s.pause_who, s.pause_why, s.pause_since,
  s.pause_until, s.set_aside, s.next_slot, s.last_slot, s.created_at, s.changed_at, s.spec, s.set_name,
  s.held_queue, s.held_since, s.held_until,
  (SELECT count(*) FROM newest)
FROM punctual_schedule AS s
WHERE s.id IN (SELECT schedule FROM newest) AND s.last_slot > ?1 AND s.enabled = 1
ORDER BY s.last_slot DESC, s.id
LIMIT ?3;
