-- The generation of a set that is in force. Index: the primary key.
SELECT generation FROM punctual_schedule_set WHERE name = ?1;
