-- The newest slots of a schedule, with how their jobs go or went. Index: the primary keys.
SELECT s.slot, s.run, s.slot_end, s.count, s.outcome, s.reason, s.job, s.term, s.node, s.revision, s.decided_at,
  l.attempt, l.claimed_at, d.attempt, d.claimed_at, d.outcome, d.finished_at
FROM punctual_slot AS s
LEFT JOIN punctual_job_lease AS l ON l.job = s.job
LEFT JOIN punctual_job_done AS d ON d.job = s.job
WHERE s.schedule = ?1
ORDER BY s.slot DESC, s.run DESC
LIMIT ?2;
