-- What time it is, and who leads a role. Index: the primary key. Locks it: whoever comes second waits
-- and sees the new leader.
SELECT coalesce($1, clock_timestamp()) AS now, role, term, nonce, node, since, lease_until, renewed_at, watched
FROM {schema}.leader WHERE role = $2 FOR UPDATE;
