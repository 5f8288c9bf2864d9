-- Makes a queue's row, without settings, if there is none, so that it can be locked.
-- Index: the primary key.
INSERT INTO {schema}.queue (name) VALUES ($1) ON CONFLICT DO NOTHING;
