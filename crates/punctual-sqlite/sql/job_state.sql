-- Where a job is: 1 in line, 2 a timer, 3 a lease, 4 waiting for others, else no row; and how often it
-- was tried. Index: those by job.
SELECT 1, attempt FROM punctual_job_ready WHERE job = ?1
UNION ALL
SELECT 2, attempt FROM punctual_job_timer WHERE job = ?1
UNION ALL
SELECT 3, attempt FROM punctual_job_lease WHERE job = ?1
UNION ALL
SELECT 4, attempt FROM punctual_job_wait WHERE job = ?1;
