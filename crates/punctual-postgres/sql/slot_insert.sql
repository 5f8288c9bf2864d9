-- Writes decided slots. Index: the primary key. A row that is there is of a schedule that was deleted
-- and made again under its old id.
INSERT INTO {schema}.slot (schedule, slot, run, slot_end, count, outcome, reason, job, term, node, revision, decided_at)
SELECT schedule, slot, run, slot_end, count, outcome, reason, job, $9, $10, revision, $11
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::smallint[], $6::text[], $7::uuid[], $8::bigint[], $12::integer[])
  AS u(schedule, slot, slot_end, count, outcome, reason, job, revision, run)
ON CONFLICT (schedule, slot, run) DO UPDATE
SET slot_end = excluded.slot_end, count = excluded.count, outcome = excluded.outcome, reason = excluded.reason,
  job = excluded.job, term = excluded.term, node = excluded.node, revision = excluded.revision,
  decided_at = excluded.decided_at;
