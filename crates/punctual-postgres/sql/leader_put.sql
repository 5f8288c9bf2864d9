-- Begins a term, and notes the change. Index: the primary key. The row is locked by the caller.
WITH begun AS (
  UPDATE {schema}.leader
  SET term = $2, nonce = $3, node = $4, since = $5, lease_until = $6, steady_since = $5
  WHERE role = $1)
INSERT INTO {schema}.leader_change (role, term, node, at) VALUES ($1, $2, $4, $5);
