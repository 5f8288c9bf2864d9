-- How many jobs run, by queue and kind. No index: there are as many leases as the nodes can hold, and one
-- by place would cost every claim and every settle a write.
SELECT queue, kind, count(*) FROM punctual_job_lease GROUP BY queue, kind;
