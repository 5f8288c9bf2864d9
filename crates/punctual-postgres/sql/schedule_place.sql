-- Gives a schedule another name or set. Index: the primary key. The row is locked by the caller.
UPDATE {schema}.schedule SET name = $2, set_name = $3, stamp = $4, changed_at = $5 WHERE id = $1;
