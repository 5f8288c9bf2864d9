-- Makes a role's row, led by nobody, if there is none, so that it can be locked. Index: the primary key.
INSERT INTO {schema}.leader (role, term, nonce, node, since, lease_until, renewed_at, watched)
VALUES ($1, 0, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000',
  '-infinity', '-infinity', 'epoch', 0)
ON CONFLICT DO NOTHING;
