-- When the next schedule has something to decide. Index: schedule_due.
SELECT due_at FROM punctual_schedule INDEXED BY punctual_schedule_due
WHERE shard = ?1 AND due_at > ?2
ORDER BY due_at
LIMIT 1;
