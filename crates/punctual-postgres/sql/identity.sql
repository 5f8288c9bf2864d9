-- Which server this is, and whether it may be written to.
SELECT current_setting('server_version_num')::integer, current_setting('server_version'), pg_is_in_recovery(),
  (SELECT system_identifier FROM pg_control_system()),
  CASE WHEN pg_is_in_recovery() THEN NULL ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
  clock_timestamp();
