-- Gives a waiting job another queue and priority. Index: the unique id.
UPDATE punctual_job SET queue = coalesce(?2, queue), priority = coalesce(?3, priority)
WHERE id = ?1
RETURNING queue, priority;
