-- Drops old counters. Index: the primary key.
DELETE FROM punctual_rollup WHERE minute < ?1;
