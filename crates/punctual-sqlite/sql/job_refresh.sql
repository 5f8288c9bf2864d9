-- A requeued job expires no more, and its budget is whole. Index: the unique id.
UPDATE punctual_job SET expires_at = NULL, fresh_after = ?2 WHERE id = ?1;
