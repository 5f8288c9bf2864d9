-- Renews a term that is not over for a lease of ?6, and adds to its watched time as `rules::watched_since`
-- says. Index: the primary key.
UPDATE punctual_leader
SET lease_until = ?4, renewed_at = ?5,
  watched = watched + CASE WHEN ?5 - renewed_at BETWEEN 0 AND ?6 * 3 / 2 THEN min(?6, ?5 - renewed_at) ELSE 0 END
WHERE role = ?1 AND term = ?2 AND nonce = ?3
RETURNING lease_until, watched, node;
