-- Moves watermarks, and forgets pauses that have ended: what they skipped is written down now.
-- Index: the primary key. The stamps were compared under locks that the caller holds.
UPDATE {schema}.schedule AS s
SET stamp = u.stamp, next_slot = u.next_slot, last_slot = u.last_slot,
  pause_who = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_who END,
  pause_why = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_why END,
  pause_since = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_since END,
  pause_until = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_until END
FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::timestamptz[]) AS u(id, stamp, next_slot, last_slot)
WHERE s.id = u.id;
