-- The generation of a set that is in force. Index: the primary key.
SELECT generation FROM {schema}.schedule_set WHERE name = $1;
