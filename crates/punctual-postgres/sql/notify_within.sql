-- Tells other processes when the transaction commits, which is the caller's: unlike `notify`, nothing
-- of it is set.
SELECT pg_notify($1, $2);
