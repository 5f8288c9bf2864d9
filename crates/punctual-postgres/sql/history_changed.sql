-- Reads when a node last found another history than the recorded one. Index: meta_pkey. No locks.
SELECT (SELECT m.value FROM {schema}.meta AS m WHERE m.name = 'history_changed_at');
