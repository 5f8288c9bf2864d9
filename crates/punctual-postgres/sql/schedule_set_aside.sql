-- Sets schedules aside that cannot be planned. Index: the primary key; the ids come sorted. Locked by the caller.
UPDATE {schema}.schedule AS s
SET stamp = ($2::bigint[])[width_bucket(s.id, $1::uuid[])], set_aside = ($3::text[])[width_bucket(s.id, $1::uuid[])]
WHERE s.id = ANY($1::uuid[]);
