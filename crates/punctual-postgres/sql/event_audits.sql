-- What was done, oldest first. Index: audit_at.
SELECT id, at, who, why, action, subject FROM {schema}.audit
WHERE (at, id) > ($1, $2) AND at <= $3
ORDER BY at, id
LIMIT $4;
