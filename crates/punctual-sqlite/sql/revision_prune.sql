-- Drops definitions that were superseded long ago, oldest first. Index: schedule_revision_superseded.
DELETE FROM punctual_schedule_revision WHERE (schedule, revision) IN (
  SELECT schedule, revision FROM punctual_schedule_revision
  WHERE superseded_at < ?1
  ORDER BY superseded_at, schedule, revision
  LIMIT ?2);
