-- Moves watermarks to the first slot that is held. A pause stays as long as slots from it are undecided.
-- Index: the primary key. The ids come sorted, and the rows are locked by the caller, as in `schedule_advance`.
UPDATE {schema}.schedule AS s
SET stamp = ($2::bigint[])[width_bucket(s.id, $1::uuid[])], next_slot = ($3::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  last_slot = ($4::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  held_queue = ($5::text[])[width_bucket(s.id, $1::uuid[])], held_since = ($6::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  held_until = ($7::timestamptz[])[width_bucket(s.id, $1::uuid[])],
  pause_who = CASE WHEN s.pause_until <= ($8::timestamptz[])[width_bucket(s.id, $1::uuid[])] THEN NULL ELSE s.pause_who END,
  pause_why = CASE WHEN s.pause_until <= ($8::timestamptz[])[width_bucket(s.id, $1::uuid[])] THEN NULL ELSE s.pause_why END,
  pause_since = CASE WHEN s.pause_until <= ($8::timestamptz[])[width_bucket(s.id, $1::uuid[])] THEN NULL ELSE s.pause_since END,
  pause_until = CASE WHEN s.pause_until <= ($8::timestamptz[])[width_bucket(s.id, $1::uuid[])] THEN NULL ELSE s.pause_until END
WHERE s.id = ANY($1::uuid[]);
