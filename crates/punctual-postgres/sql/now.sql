-- What time it is.
SELECT coalesce($1, clock_timestamp());
