-- Keeps a definition; the one in force is superseded. Index: the primary key.
WITH superseded AS (
  UPDATE {schema}.schedule_revision SET superseded_at = $6 WHERE schedule = $1 AND superseded_at IS NULL)
INSERT INTO {schema}.schedule_revision (schedule, revision, spec, who, why, at)
VALUES ($1, $2, $3::text::json, $4, $5, $6);
