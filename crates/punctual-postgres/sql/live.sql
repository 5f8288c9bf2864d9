-- The unfinished jobs of schedules, oldest first and so many of each, and which of them wait for the
-- others. Index: job_live_order, the primary key of job_wait. Not `schedule = s.id`: the order by job alone would then be
-- that of the primary key of job_live, too, and a table that seems empty would be read whole in that order for each schedule.
-- One row without a schedule has the clock. It is read after the snapshot of this statement was taken, so that
-- all jobs that the statement finds finished were finished at an earlier instant.
SELECT f.id, f.job, f.is_waiting, f.now
FROM (
  SELECT s.id, l.job, w.job IS NOT NULL AS is_waiting, NULL::timestamptz AS now
  FROM unnest($1::uuid[]) AS s(id)
  CROSS JOIN LATERAL (
    SELECT v.job FROM {schema}.job_live AS v
    WHERE v.schedule >= s.id AND v.schedule <= s.id AND v.schedule <> '00000000-0000-0000-0000-000000000000'
    ORDER BY v.schedule, v.job LIMIT $2) AS l
  LEFT JOIN LATERAL (SELECT b.job FROM {schema}.job_wait AS b WHERE b.job = l.job OFFSET 0) AS w ON true
  UNION ALL
  SELECT NULL, NULL, NULL, coalesce($3, clock_timestamp())) AS f
ORDER BY f.id, f.job;
