-- The tables of the first release. An older program may not go on: there is none.
-- Instants are microseconds of UTC, lengths of time are microseconds, ids are 16 bytes. A job's
-- body is written once; where it is in its life is which small table its id sits in.

-- Numbers about the file itself: schema_version, schema_breaking, engine_open.
CREATE TABLE punctual_meta (
  name TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The secret key of the hashes in punctual_job_key. It is never changed: the hashes that are held depend on it.
-- randomblob() is a ChaCha20 generator whose seed comes from the operating system.
CREATE TABLE punctual_cluster_key (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), -- one row
  key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;
INSERT INTO punctual_cluster_key (id, key) VALUES (1, randomblob(32));

-- The body. The payload stands last, so that a list never reads past it.
CREATE TABLE punctual_job (
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  tenant TEXT NOT NULL,
  owner TEXT NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  timeout_us INTEGER,
  budget_us INTEGER,
  expires_at INTEGER,
  fresh_after INTEGER NOT NULL DEFAULT 0, -- attempts up to this one used none of the budget
  created_at INTEGER NOT NULL,
  schedule BLOB,
  slot INTEGER, -- NULL beside a schedule: somebody ran it by hand
  facts TEXT, -- what its handler is told about the schedule; NULL without one
  unique_key TEXT,
  key_scope INTEGER, -- 1 tenant, 2 kind, 3 queue
  key_us INTEGER, -- NULL: held until the job has ended
  tags TEXT, -- a JSON array; NULL: none
  trace TEXT,
  payload TEXT NOT NULL
) STRICT;
CREATE INDEX punctual_job_by_queue ON punctual_job (queue, id);
CREATE INDEX punctual_job_by_schedule ON punctual_job (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX punctual_job_by_tenant ON punctual_job (tenant, id) WHERE tenant <> '';

-- What may run now. The primary key is the order of the claim: it reads the head of a kind and
-- never meets another. Flags: 1 has a unique key, 8 has a row in job_live,
-- 32 to 480 count the releases for lack of resources.
CREATE TABLE punctual_job_ready (
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  rank INTEGER NOT NULL,
  job BLOB NOT NULL,
  due_at INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  PRIMARY KEY (queue, kind, rank, job)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX punctual_job_ready_job ON punctual_job_ready (job);

-- What is due later: delayed jobs and retries.
CREATE TABLE punctual_job_timer (
  due_at INTEGER NOT NULL,
  job BLOB NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  priority INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  PRIMARY KEY (due_at, job)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX punctual_job_timer_job ON punctual_job_timer (job);
CREATE INDEX punctual_job_timer_place ON punctual_job_timer (queue, kind, attempt);

-- What waits for its schedule's earlier jobs. Each has a row in job_live, too.
CREATE TABLE punctual_job_wait (
  schedule BLOB NOT NULL,
  slot INTEGER NOT NULL,
  job BLOB NOT NULL,
  due_at INTEGER NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  priority INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  PRIMARY KEY (schedule, slot, job)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX punctual_job_wait_job ON punctual_job_wait (job);
CREATE INDEX punctual_job_wait_place ON punctual_job_wait (queue, kind);

-- What runs. The deleted row is the fence.
CREATE TABLE punctual_job_lease (
  job BLOB NOT NULL PRIMARY KEY,
  lease BLOB NOT NULL,
  node BLOB NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  due_at INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  cancel TEXT, -- why its worker was asked to stop
  progress_at INTEGER, -- NULL: it has told of none
  progress_percent INTEGER,
  progress_note TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_job_lease_node ON punctual_job_lease (node, queue);

-- How a job ended. Only dead letters say where they stood: they are counted by queue and kind.
CREATE TABLE punctual_job_done (
  job BLOB NOT NULL PRIMARY KEY,
  outcome INTEGER NOT NULL, -- 1 succeeded, 2 failed, 3 cancelled
  finished_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  spent INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  lease BLOB,
  node BLOB,
  claimed_at INTEGER,
  queue TEXT,
  kind TEXT,
  error TEXT,
  result TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_job_done_finished ON punctual_job_done (finished_at, job) WHERE outcome <> 2;
CREATE INDEX punctual_job_done_died ON punctual_job_done (finished_at, job) WHERE outcome = 2;
CREATE INDEX punctual_job_done_cancelled ON punctual_job_done (job) WHERE outcome = 3;
CREATE INDEX punctual_job_done_place ON punctual_job_done (queue, kind) WHERE outcome = 2;

-- Attempts that did not end in success; outcomes have the codes of `AttemptOutcome`.
CREATE TABLE punctual_job_attempt (
  job BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  lease BLOB NOT NULL,
  node BLOB NOT NULL,
  outcome INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  error TEXT,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- Steps of jobs: what the next attempt need not do again.
CREATE TABLE punctual_job_step (
  job BLOB NOT NULL,
  name TEXT NOT NULL,
  at INTEGER NOT NULL,
  result TEXT NOT NULL,
  PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

-- Lines of handlers' logs; levels have the codes of `LogLevel`.
CREATE TABLE punctual_job_log (
  job BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL, -- within the attempt, from 1
  level INTEGER NOT NULL,
  at INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (job, attempt, number)
) STRICT, WITHOUT ROWID;

-- Unique keys that are held; without an expiry they go when the job ends.
CREATE TABLE punctual_job_key (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  job BLOB NOT NULL,
  hash BLOB NOT NULL CHECK (length(hash) = 16), -- of the payload, under the cluster key
  expires_at INTEGER,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_job_key_job ON punctual_job_key (job);
CREATE INDEX punctual_job_key_expiry ON punctual_job_key (expires_at, tenant, key) WHERE expires_at IS NOT NULL;

-- Unfinished jobs of schedules.
CREATE TABLE punctual_job_live (
  schedule BLOB NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (schedule, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_job_live_job ON punctual_job_live (job);

-- When the start deadlines of jobs are checked: after the deadline, and at least once a day. Jobs without
-- a deadline have no row. The leader of the role maintenance replaces or deletes each row at its check.
CREATE TABLE punctual_job_deadline (
  check_at INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (check_at, job)
) STRICT, WITHOUT ROWID;

-- Queues that have a setting.
CREATE TABLE punctual_queue (
  name TEXT NOT NULL PRIMARY KEY,
  pause_who TEXT,
  pause_why TEXT,
  pause_since INTEGER, -- NULL: not paused
  pause_until INTEGER,
  max_running INTEGER
) STRICT, WITHOUT ROWID;

-- Job counts by queue and kind, stored while there are many jobs; the leader of the role maintenance
-- replaces them all. Empty: requests count for themselves.
CREATE TABLE punctual_queue_count (
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  ready INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,
  retrying INTEGER NOT NULL,
  blocked INTEGER NOT NULL,
  running INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  oldest_due_at INTEGER, -- of the ready jobs
  counted_at INTEGER NOT NULL, -- the same in all rows
  PRIMARY KEY (queue, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_node (
  id BLOB NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  queues TEXT NOT NULL, -- JSON, like the next two
  kinds TEXT NOT NULL,
  labels TEXT NOT NULL,
  joined_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  seen_watch INTEGER NOT NULL DEFAULT 0, -- `watched` of the role `maintenance` at the last heartbeat
  dead_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_leader (
  role TEXT NOT NULL PRIMARY KEY,
  term INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  node BLOB NOT NULL,
  since INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  renewed_at INTEGER NOT NULL, -- the last renewal; at first, the beginning of the term
  watched INTEGER NOT NULL -- µs over all terms in which leaders could renew the role
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_leader_change (
  id INTEGER PRIMARY KEY,
  role TEXT NOT NULL,
  term INTEGER NOT NULL,
  node BLOB NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX punctual_leader_change_role ON punctual_leader_change (role, id);

-- A schedule that has something to decide stands in the index of what is due: at its next slot, or
-- when a pause ends, if that is later. Of `max`, one NULL makes NULL: it is paused without an end.
CREATE TABLE punctual_schedule (
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  set_name TEXT NOT NULL, -- empty: of no set
  shard INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  stamp INTEGER NOT NULL, -- raised by every write
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  pause_who TEXT,
  pause_why TEXT,
  pause_since INTEGER, -- NULL: not paused
  pause_until INTEGER,
  set_aside TEXT,
  next_slot INTEGER,
  held_queue TEXT, -- of the nodes that held slots wait for; NULL if no slot is held
  held_since INTEGER,
  held_until INTEGER, -- when held slots are examined again
  last_slot INTEGER,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  due_at INTEGER GENERATED ALWAYS AS (
    CASE
      WHEN enabled = 0 OR set_aside IS NOT NULL THEN NULL
      WHEN pause_since IS NULL THEN coalesce(held_until, next_slot)
      ELSE max(coalesce(held_until, next_slot), pause_until)
    END) VIRTUAL,
  spec TEXT NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
CREATE INDEX punctual_schedule_due ON punctual_schedule (shard, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX punctual_schedule_held ON punctual_schedule (held_queue, held_since, id) WHERE held_queue IS NOT NULL;
CREATE INDEX punctual_schedule_set_member ON punctual_schedule (tenant, set_name, name) WHERE set_name <> '';

-- Sets of schedules, and the generation of each that is in force.
CREATE TABLE punctual_schedule_set (
  name TEXT NOT NULL PRIMARY KEY,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_schedule_revision (
  schedule BLOB NOT NULL,
  revision INTEGER NOT NULL,
  spec TEXT NOT NULL,
  who TEXT NOT NULL,
  why TEXT NOT NULL,
  at INTEGER NOT NULL,
  superseded_at INTEGER, -- NULL: in force
  PRIMARY KEY (schedule, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_schedule_revision_superseded
ON punctual_schedule_revision (superseded_at, schedule, revision) WHERE superseded_at IS NOT NULL;

-- The ledger; outcomes have the codes of `SlotOutcome`.
CREATE TABLE punctual_slot (
  schedule BLOB NOT NULL,
  slot INTEGER NOT NULL,
  run INTEGER NOT NULL, -- 0 the decision at the watermark, 1 and on backfills
  slot_end INTEGER,
  count INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  reason TEXT,
  job BLOB,
  term INTEGER NOT NULL,
  node BLOB NOT NULL, -- who led
  revision INTEGER NOT NULL, -- of the schedule as it stood
  decided_at INTEGER NOT NULL,
  PRIMARY KEY (schedule, slot, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_slot_decided ON punctual_slot (decided_at, schedule, slot, run);

CREATE TABLE punctual_rollup (
  minute INTEGER NOT NULL,
  metric TEXT NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  count INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (minute, metric, queue, kind)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a number that was pruned is never given again, or a cursor would lead astray.
CREATE TABLE punctual_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  why TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL
) STRICT;
CREATE INDEX punctual_audit_at ON punctual_audit (at);
