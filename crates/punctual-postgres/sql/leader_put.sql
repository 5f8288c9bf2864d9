-- Begins a term with a lease of $7, and notes the change. The watched time continues as
-- `rules::watched_since` says. Index: the primary key. The row is locked by the caller.
WITH begun AS (
  UPDATE {schema}.leader
  SET term = $2, nonce = $3, node = $4, since = $5, lease_until = $6, renewed_at = $5,
    watched = watched + CASE
      WHEN renewed_at BETWEEN $5 - ($7 * 3 / 2) * interval '1 microsecond' AND $5
      THEN least($7, (extract(epoch FROM $5 - renewed_at) * 1000000)::bigint) ELSE 0 END
  WHERE role = $1)
INSERT INTO {schema}.leader_change (role, term, node, at) VALUES ($1, $2, $4, $5);
