-- Adds to a counter. Index: the primary key.
INSERT INTO punctual_rollup AS r (minute, metric, queue, kind, count, sum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (minute, metric, queue, kind) DO UPDATE
SET count = r.count + excluded.count, sum = r.sum + excluded.sum;
