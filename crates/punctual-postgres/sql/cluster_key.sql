-- The secret key of the hashes of unique keys. Index: none; the table has one row.
SELECT key FROM {schema}.cluster_key;
