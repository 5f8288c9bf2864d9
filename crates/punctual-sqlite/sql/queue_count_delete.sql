-- Removes the stored job counts.
DELETE FROM punctual_queue_count;
