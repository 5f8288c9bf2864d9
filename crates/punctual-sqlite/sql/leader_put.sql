-- Begins a term with a lease of ?7. The watched time continues as `rules::watched_since` says. Index: the primary key.
INSERT INTO punctual_leader (role, term, nonce, node, since, lease_until, renewed_at, watched)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, 0)
ON CONFLICT (role) DO UPDATE
SET term = excluded.term, nonce = excluded.nonce, node = excluded.node, since = excluded.since,
  lease_until = excluded.lease_until, renewed_at = excluded.renewed_at,
  watched = watched + CASE
    WHEN excluded.renewed_at - renewed_at BETWEEN 0 AND ?7 * 3 / 2
    THEN min(?7, excluded.renewed_at - renewed_at) ELSE 0 END;
