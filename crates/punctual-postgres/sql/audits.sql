-- What was done, newest first. Index: the primary key.
SELECT id, at, who, why, action, subject FROM {schema}.audit WHERE id < $1 ORDER BY id DESC LIMIT $2;
