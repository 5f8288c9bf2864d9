-- The ledger of a schedule, newest first. Index: the primary key.
SELECT slot, run, slot_end, count, outcome, reason, job, term, node, revision, decided_at
FROM {schema}.slot
WHERE schedule = $1 AND (slot, run) < ($2, $3)
ORDER BY slot DESC, run DESC
LIMIT $4;
