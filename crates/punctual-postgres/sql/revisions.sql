-- The definitions of a schedule, newest first. Index: the primary key.
SELECT revision, spec::text, who, why, at, superseded_at
FROM {schema}.schedule_revision
WHERE schedule = $1 AND revision < $2
ORDER BY revision DESC
LIMIT $3;
