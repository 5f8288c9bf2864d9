-- Gives a waiting job another queue and priority. Index: the primary key, one partition.
UPDATE {schema}.job SET queue = coalesce($2, queue), priority = coalesce($3, priority)
WHERE id = $1
RETURNING queue, priority;
