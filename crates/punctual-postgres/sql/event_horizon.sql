-- Since when transactions are open that may write events: what is as old as the oldest of them may still get
-- a neighbour. Those that are open for longer than $1 are waited for no more. A transaction has the lock from
-- before it reads the clock until its end. No index: it asks the server, not the tables.
SELECT min(a.xact_start)
FROM pg_locks AS l
JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation IN ('{schema}.job_done'::regclass, '{schema}.slot'::regclass, '{schema}.audit'::regclass,
    '{schema}.leader_change'::regclass)
  AND a.xact_start > clock_timestamp() - make_interval(secs => $1);
