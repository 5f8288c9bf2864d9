-- Notes after which instant the start deadline of a job is checked.
INSERT INTO punctual_job_deadline (check_at, job) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
