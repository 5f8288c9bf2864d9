-- Another definition takes the place of the one in force. Index: the primary key.
UPDATE punctual_schedule_revision SET superseded_at = ?2 WHERE schedule = ?1 AND superseded_at IS NULL;
