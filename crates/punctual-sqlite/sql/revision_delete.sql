-- Drops the definitions of a schedule that is removed. Index: the primary key.
DELETE FROM punctual_schedule_revision WHERE schedule = ?1;
