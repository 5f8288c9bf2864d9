-- Who leads what, by role. Index: the primary key. A row of term 0 is one whose first leader is about
-- to begin.
SELECT role, term, nonce, node, since, lease_until, renewed_at, watched
FROM {schema}.leader WHERE term > 0 ORDER BY role;
