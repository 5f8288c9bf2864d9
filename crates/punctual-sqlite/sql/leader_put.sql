-- Begins a term. Index: the primary key.
INSERT OR REPLACE INTO punctual_leader (role, term, nonce, node, since, lease_until, steady_since)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5);
