-- Spoils a job's row for tests: no length of time is negative. Index: the primary key, one partition.
UPDATE {schema}.job SET timeout_us = -1 WHERE id = $1;
