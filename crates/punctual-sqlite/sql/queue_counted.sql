-- When the stored job counts were counted; all rows have the same instant.
SELECT counted_at FROM punctual_queue_count LIMIT 1;
