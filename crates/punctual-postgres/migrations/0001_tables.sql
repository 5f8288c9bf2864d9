-- The tables of the first release. An older program may not go on: there is none.
-- A job's body is written once; where it is in its life is which small table its id sits in. Names
-- and keys compare by their bytes, as everywhere. Lengths of time are microseconds.

-- Numbers about the schema itself: schema_version, schema_breaking.
CREATE TABLE {schema}.meta (
  name text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);

-- The secret key of the hashes in job_key. It is never changed: the hashes that are held depend on it.
-- gen_random_uuid() uses the strong random numbers of the server, 122 bits in each value.
CREATE TABLE {schema}.cluster_key (
  id integer PRIMARY KEY CHECK (id = 1), -- one row
  key bytea NOT NULL CHECK (octet_length(key) = 32)
);
INSERT INTO {schema}.cluster_key (id, key)
VALUES (1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The body. It and its twins job_done, job_attempt, job_step and job_log are partitioned by the day of
-- the id, which begins with milliseconds since 1970; what lies in no day that was made ahead is in the
-- default.
CREATE TABLE {schema}.job (
  id uuid PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  max_attempts integer NOT NULL,
  timeout_us bigint,
  budget_us bigint,
  fresh_after integer NOT NULL DEFAULT 0, -- attempts up to this one used none of the budget
  expires_at timestamptz,
  created_at timestamptz NOT NULL,
  schedule uuid,
  slot timestamptz, -- NULL beside a schedule: somebody ran it by hand
  facts json, -- what its handler is told about the schedule; NULL without one
  unique_key text COLLATE "C",
  key_scope smallint, -- 1 tenant, 2 kind, 3 queue
  key_us bigint, -- NULL: held until the job has ended
  tags jsonb, -- an array of strings; NULL: none
  trace text,
  payload json NOT NULL -- as it was given: jsonb would change numbers and refuse some strings
) PARTITION BY RANGE (id);
CREATE INDEX job_by_queue ON {schema}.job (queue, id);
CREATE INDEX job_by_schedule ON {schema}.job (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX job_by_tenant ON {schema}.job (tenant, id) WHERE tenant <> '';
CREATE TABLE {schema}.job_default PARTITION OF {schema}.job DEFAULT;

-- The tables of unfinished jobs are empty most of the time and full in a burst. On a table that seems empty all indexes
-- cost the same, and PostgreSQL may search the whole of an index for a job that is not its first column. So an index that
-- contains the job in another place has a condition that all rows meet: it is used only by statements that state the
-- condition, too.

-- What may run now. Inserted and deleted, never updated: the claim relies on it, it goes by ctid.
-- One order index: a second one invites wrong plans. Flags: 1 has a unique key, 8 has a row in
-- job_live, 16 has one attempt only, 32 to 480 count the releases for lack of resources.
CREATE TABLE {schema}.job_ready (
  job uuid PRIMARY KEY,
  queue text COLLATE "C" NOT NULL CHECK (queue <> ''),
  rank timestamptz NOT NULL,
  kind text COLLATE "C" NOT NULL,
  due_at timestamptz NOT NULL,
  attempt integer NOT NULL, -- one of these three below 0: they cannot be read
  spent integer NOT NULL,
  crashes integer NOT NULL,
  priority smallint NOT NULL,
  flags smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_ready_order ON {schema}.job_ready (queue, rank, job, kind) WHERE queue <> '';

-- What is due later: delayed jobs and retries.
CREATE TABLE {schema}.job_timer (
  job uuid PRIMARY KEY,
  due_at timestamptz NOT NULL,
  queue text COLLATE "C" NOT NULL CHECK (queue <> ''),
  kind text COLLATE "C" NOT NULL,
  attempt integer NOT NULL,
  spent integer NOT NULL,
  crashes integer NOT NULL,
  priority smallint NOT NULL,
  flags smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_timer_due ON {schema}.job_timer (due_at, job) WHERE queue <> '';
CREATE INDEX job_timer_place ON {schema}.job_timer (queue, kind, attempt);

-- What waits for its schedule's earlier jobs. Each has a row in job_live, too.
CREATE TABLE {schema}.job_wait (
  schedule uuid NOT NULL,
  slot timestamptz NOT NULL,
  job uuid PRIMARY KEY,
  due_at timestamptz NOT NULL,
  queue text COLLATE "C" NOT NULL CHECK (queue <> ''),
  kind text COLLATE "C" NOT NULL,
  attempt integer NOT NULL,
  spent integer NOT NULL,
  crashes integer NOT NULL,
  priority smallint NOT NULL,
  flags smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_wait_order ON {schema}.job_wait (schedule, slot, job) WHERE queue <> '';
CREATE INDEX job_wait_place ON {schema}.job_wait (queue, kind);

-- What runs. The deleted row is the fence. Only progress and cancel requests update it, in place.
CREATE TABLE {schema}.job_lease (
  job uuid PRIMARY KEY,
  lease uuid NOT NULL, -- all zero: it cannot be read
  node uuid NOT NULL,
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  due_at timestamptz NOT NULL,
  claimed_at timestamptz NOT NULL,
  attempt integer NOT NULL,
  spent integer NOT NULL,
  crashes integer NOT NULL,
  priority smallint NOT NULL,
  flags smallint NOT NULL,
  cancel text, -- why its worker was asked to stop
  progress_at timestamptz, -- NULL: it has told of none
  progress_percent smallint,
  progress_note text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_lease_node ON {schema}.job_lease (node, queue);

-- How a job ended. Only dead letters say where they stood: they are counted by queue and kind.
CREATE TABLE {schema}.job_done (
  job uuid PRIMARY KEY,
  outcome smallint NOT NULL, -- 1 succeeded, 2 failed, 3 cancelled
  finished_at timestamptz NOT NULL,
  attempt integer NOT NULL,
  spent integer NOT NULL,
  crashes integer NOT NULL,
  lease uuid,
  node uuid,
  claimed_at timestamptz,
  queue text COLLATE "C",
  kind text COLLATE "C",
  error text,
  result json
) PARTITION BY RANGE (job);
CREATE INDEX job_done_died ON {schema}.job_done (finished_at, job) WHERE outcome = 2;
CREATE INDEX job_done_place ON {schema}.job_done (queue, kind) WHERE outcome = 2;
CREATE INDEX job_done_cancelled ON {schema}.job_done (job) WHERE outcome = 3;
-- Rows stand nearly in the order of their ends: whoever reads what ended lately needs no more than
-- this, which costs a settlement next to nothing.
CREATE INDEX job_done_ended ON {schema}.job_done USING brin (finished_at) WITH (pages_per_range = 16);
CREATE TABLE {schema}.job_done_default PARTITION OF {schema}.job_done DEFAULT;
-- A day is dropped whole; only what is in no day is pruned row by row.
CREATE INDEX job_done_finished ON {schema}.job_done_default (finished_at, job) WHERE outcome <> 2;

-- Attempts that did not end in success; outcomes have the codes of `AttemptOutcome`.
CREATE TABLE {schema}.job_attempt (
  job uuid NOT NULL,
  attempt integer NOT NULL,
  lease uuid NOT NULL,
  node uuid NOT NULL,
  outcome smallint NOT NULL,
  claimed_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  error text,
  PRIMARY KEY (job, attempt)
) PARTITION BY RANGE (job);
CREATE TABLE {schema}.job_attempt_default PARTITION OF {schema}.job_attempt DEFAULT;

-- Steps of jobs: what the next attempt need not do again.
CREATE TABLE {schema}.job_step (
  job uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  result json NOT NULL,
  PRIMARY KEY (job, name)
) PARTITION BY RANGE (job);
CREATE TABLE {schema}.job_step_default PARTITION OF {schema}.job_step DEFAULT;

-- Lines of handlers' logs; levels have the codes of `LogLevel`.
CREATE TABLE {schema}.job_log (
  job uuid NOT NULL,
  attempt integer NOT NULL,
  number integer NOT NULL, -- within the attempt, from 1
  level smallint NOT NULL,
  at timestamptz NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (job, attempt, number)
) PARTITION BY RANGE (job);
CREATE TABLE {schema}.job_log_default PARTITION OF {schema}.job_log DEFAULT;

-- Unique keys that are held; without an expiry they go when the job ends.
CREATE TABLE {schema}.job_key (
  tenant text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  job uuid NOT NULL,
  hash bytea NOT NULL CHECK (octet_length(hash) = 16), -- of the payload, under the cluster key
  expires_at timestamptz,
  PRIMARY KEY (tenant, key)
);
CREATE INDEX job_key_job ON {schema}.job_key (job);
CREATE INDEX job_key_expiry ON {schema}.job_key (expires_at, tenant, key) WHERE expires_at IS NOT NULL;

-- Unfinished jobs of schedules.
CREATE TABLE {schema}.job_live (
  schedule uuid NOT NULL CHECK (schedule <> '00000000-0000-0000-0000-000000000000'),
  job uuid PRIMARY KEY
);
CREATE INDEX job_live_order ON {schema}.job_live (schedule, job) WHERE schedule <> '00000000-0000-0000-0000-000000000000';

-- When the start deadlines of jobs are checked: after the deadline, and at least once a day. Jobs without
-- a deadline have no row. Inserted and deleted, never updated: the leader of the role maintenance replaces or
-- deletes each row at its check.
CREATE TABLE {schema}.job_deadline (
  check_at timestamptz NOT NULL,
  job uuid NOT NULL,
  PRIMARY KEY (check_at, job)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);

-- Queues that have a setting.
CREATE TABLE {schema}.queue (
  name text COLLATE "C" PRIMARY KEY,
  pause_who text,
  pause_why text,
  pause_since timestamptz, -- NULL: not paused
  pause_until timestamptz,
  max_running bigint
) WITH (fillfactor = 50);

-- Job counts by queue and kind, stored while there are many jobs; the leader of the role maintenance
-- replaces them all. Empty: requests count for themselves.
CREATE TABLE {schema}.queue_count (
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  ready bigint NOT NULL,
  scheduled bigint NOT NULL,
  retrying bigint NOT NULL,
  blocked bigint NOT NULL,
  running bigint NOT NULL,
  failed bigint NOT NULL,
  oldest_due_at timestamptz, -- of the ready jobs
  counted_at timestamptz NOT NULL, -- the same in all rows
  PRIMARY KEY (queue, kind)
);

CREATE TABLE {schema}.node (
  id uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  version text NOT NULL,
  queues json NOT NULL,
  kinds json NOT NULL,
  labels json NOT NULL,
  joined_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  seen_watch bigint NOT NULL DEFAULT 0, -- `watched` of the role `maintenance` at the last heartbeat
  dead_at timestamptz
) WITH (fillfactor = 20);

CREATE TABLE {schema}.leader (
  role text COLLATE "C" PRIMARY KEY,
  term bigint NOT NULL,
  nonce uuid NOT NULL,
  node uuid NOT NULL,
  since timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  renewed_at timestamptz NOT NULL, -- the last renewal; at first, the beginning of the term
  watched bigint NOT NULL -- µs over all terms in which leaders could renew the role
) WITH (fillfactor = 20);

CREATE TABLE {schema}.leader_change (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role text COLLATE "C" NOT NULL,
  term bigint NOT NULL,
  node uuid NOT NULL,
  at timestamptz NOT NULL
);
CREATE INDEX leader_change_role ON {schema}.leader_change (role, id);

-- A schedule that has something to decide stands in the index of what is due: at its next slot, or
-- when a pause ends, if that is later.
CREATE TABLE {schema}.schedule (
  id uuid PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  set_name text COLLATE "C" NOT NULL, -- empty: of no set
  shard smallint NOT NULL,
  enabled boolean NOT NULL,
  revision bigint NOT NULL,
  stamp bigint NOT NULL, -- raised by every write
  pause_who text,
  pause_why text,
  pause_since timestamptz, -- NULL: not paused
  pause_until timestamptz,
  set_aside text,
  next_slot timestamptz,
  held_queue text COLLATE "C", -- of the nodes that held slots wait for; NULL if no slot is held
  held_since timestamptz,
  held_until timestamptz, -- when held slots are examined again
  last_slot timestamptz,
  created_at timestamptz NOT NULL,
  changed_at timestamptz NOT NULL,
  due_at timestamptz GENERATED ALWAYS AS (
    CASE
      WHEN NOT enabled OR set_aside IS NOT NULL OR next_slot IS NULL THEN NULL
      WHEN pause_since IS NULL THEN coalesce(held_until, next_slot)
      WHEN pause_until IS NOT NULL THEN greatest(coalesce(held_until, next_slot), pause_until)
    END) STORED,
  spec json, -- NULL: it cannot be read
  CONSTRAINT schedule_name UNIQUE (tenant, name)
) WITH (fillfactor = 70);
CREATE INDEX schedule_due ON {schema}.schedule (shard, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_held ON {schema}.schedule (held_queue, held_since, id) WHERE held_queue IS NOT NULL;
CREATE INDEX schedule_set_member ON {schema}.schedule (tenant, set_name, name) WHERE set_name <> '';

-- Sets of schedules, and the generation of each that is in force.
CREATE TABLE {schema}.schedule_set (
  name text COLLATE "C" PRIMARY KEY,
  generation bigint NOT NULL
);

CREATE TABLE {schema}.schedule_revision (
  schedule uuid NOT NULL,
  revision bigint NOT NULL,
  spec json NOT NULL,
  who text NOT NULL,
  why text NOT NULL,
  at timestamptz NOT NULL,
  superseded_at timestamptz, -- NULL: in force
  PRIMARY KEY (schedule, revision)
);
CREATE INDEX schedule_revision_superseded
ON {schema}.schedule_revision (superseded_at, schedule, revision) WHERE superseded_at IS NOT NULL;

-- The ledger; outcomes have the codes of `SlotOutcome`.
CREATE TABLE {schema}.slot (
  schedule uuid NOT NULL,
  slot timestamptz NOT NULL,
  run integer NOT NULL, -- 0 the decision at the watermark, 1 and on backfills
  slot_end timestamptz,
  count bigint NOT NULL,
  outcome smallint NOT NULL,
  reason text,
  job uuid,
  term bigint NOT NULL,
  node uuid NOT NULL, -- who led
  revision bigint NOT NULL, -- of the schedule as it stood
  decided_at timestamptz NOT NULL,
  PRIMARY KEY (schedule, slot, run)
);
CREATE INDEX slot_decided ON {schema}.slot (decided_at, schedule, slot, run);

CREATE TABLE {schema}.rollup (
  minute timestamptz NOT NULL,
  metric text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  sum bigint NOT NULL,
  PRIMARY KEY (minute, metric, queue, kind)
);

CREATE TABLE {schema}.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  who text NOT NULL,
  why text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL
);
CREATE INDEX audit_at ON {schema}.audit (at, id);
