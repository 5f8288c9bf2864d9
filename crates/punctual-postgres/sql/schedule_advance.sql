-- Moves watermarks, and forgets pauses that have ended: what they skipped is written down now.
-- Index: the primary key. The ids come sorted: width_bucket finds the values of a schedule by binary search, without a
-- join whose order statistics choose. The stamps were compared under locks that the caller holds.
UPDATE {schema}.schedule AS s
SET stamp = ($2::bigint[])[width_bucket(s.id, $1::uuid[])], next_slot = ($3::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  last_slot = ($4::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  held_queue = NULL, held_since = NULL, held_until = NULL,
  pause_who = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_who END,
  pause_why = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_why END,
  pause_since = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_since END,
  pause_until = CASE WHEN s.pause_until <= $5 THEN NULL ELSE s.pause_until END
WHERE s.id = ANY($1::uuid[]);
