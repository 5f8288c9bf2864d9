-- Takes the head of one kind out of the line, up to and with the last job that was picked.
-- Index: the primary key. The claim has read that head in this transaction, and there is one writer.
DELETE FROM punctual_job_ready
WHERE queue = ?1 AND kind = ?2 AND (rank, job) <= (?3, ?4);
