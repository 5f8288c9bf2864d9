-- After which instant a start deadline is checked next. Index: the primary key.
SELECT check_at FROM punctual_job_deadline ORDER BY check_at, job LIMIT 1;
