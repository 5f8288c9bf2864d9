-- The newest slots of schedules, with how their jobs go or went. Index: the primary keys. LATERAL with
-- OFFSET 0 holds PostgreSQL to one partition per job.
SELECT s.slot, s.run, s.slot_end, s.count, s.outcome, s.reason, s.job, s.term, s.node, s.revision, s.decided_at,
  l.attempt, l.claimed_at, d.attempt, d.claimed_at, d.outcome, d.finished_at, a.id
FROM unnest($1) WITH ORDINALITY AS a (id, number)
JOIN LATERAL (
  SELECT * FROM {schema}.slot AS b WHERE b.schedule = a.id ORDER BY b.slot DESC, b.run DESC LIMIT $2) AS s ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_lease AS b WHERE b.job = s.job OFFSET 0) AS l ON true
LEFT JOIN LATERAL (SELECT * FROM {schema}.job_done AS b WHERE b.job = s.job OFFSET 0) AS d ON true
ORDER BY a.number, s.slot DESC, s.run DESC;
