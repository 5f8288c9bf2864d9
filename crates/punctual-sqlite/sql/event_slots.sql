-- What was decided about slots of all schedules, in the order of the decisions. Index: slot_decided.
SELECT s.slot, s.run, s.slot_end, s.count, s.outcome, s.reason, s.job, s.term, s.node, s.revision,
  s.decided_at, s.schedule, c.name
FROM punctual_slot AS s INDEXED BY punctual_slot_decided
LEFT JOIN punctual_schedule AS c ON c.id = s.schedule
WHERE (s.decided_at, s.schedule, s.slot, s.run) > (?1, ?2, ?3, ?4) AND s.decided_at <= ?5
ORDER BY s.decided_at, s.schedule, s.slot, s.run
LIMIT ?6;
