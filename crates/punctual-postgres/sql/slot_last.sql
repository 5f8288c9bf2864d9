-- The last decision at the watermark about a slot not later than an instant. Index: the primary key.
SELECT slot, slot_end, count FROM {schema}.slot
WHERE schedule = $1 AND slot <= $2 AND run = 0
ORDER BY slot DESC
LIMIT 1;
