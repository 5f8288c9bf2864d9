-- Removes a schedule with its definitions. Index: the primary keys.
WITH revisions AS (DELETE FROM {schema}.schedule_revision WHERE schedule = $1)
DELETE FROM {schema}.schedule WHERE id = $1;
