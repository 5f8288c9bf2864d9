-- Sets schedules aside that cannot be planned. Index: the primary key. Locked by the caller.
UPDATE {schema}.schedule AS s SET stamp = u.stamp, set_aside = u.reason
FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS u(id, stamp, reason)
WHERE s.id = u.id;
