-- Who leads what, by role. Index: the primary key.
SELECT role, term, nonce, node, since, lease_until, renewed_at, watched
FROM punctual_leader ORDER BY role;
