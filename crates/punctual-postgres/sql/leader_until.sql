-- Sets the end of a lease. Index: the primary key. The row is locked by the caller.
UPDATE {schema}.leader SET lease_until = $2 WHERE role = $1;
