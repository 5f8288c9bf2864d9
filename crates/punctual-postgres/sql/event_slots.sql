-- What was decided about slots of all schedules, in the order of the decisions. Index: slot_decided.
SELECT s.slot, s.run, s.slot_end, s.count, s.outcome, s.reason, s.job, s.term, s.node, s.revision,
  s.decided_at, s.schedule, c.name
FROM (
  SELECT * FROM {schema}.slot
  WHERE (decided_at, schedule, slot, run) > ($1, $2, $3, $4) AND decided_at <= $5
  ORDER BY decided_at, schedule, slot, run
  LIMIT $6) AS s
LEFT JOIN LATERAL (SELECT name FROM {schema}.schedule AS b WHERE b.id = s.schedule OFFSET 0) AS c ON true;
