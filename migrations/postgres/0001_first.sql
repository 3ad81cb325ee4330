-- The control database, first version, as PostgreSQL has it: the same tables as SQLite's, in the schema "weir".
--
-- Texts sort by their bytes (COLLATE "C"), as they do in SQLite: ids are looked for by their beginning.

CREATE TABLE data_format (
    id      BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO data_format (id, version) VALUES (1, 1);

-- Jobs that were seen.
CREATE TABLE jobs (
    cluster       TEXT COLLATE "C" NOT NULL,
    namespace     TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    run_id        TEXT COLLATE "C" NOT NULL,
    run_start_ms  BIGINT NOT NULL,
    first_seen_ms BIGINT NOT NULL,
    last_seen_ms  BIGINT NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);

-- What people have said, about everything (one row) and about jobs, seen or not.
CREATE TABLE control_state (
    id       BIGINT  NOT NULL PRIMARY KEY CHECK (id = 1),
    revision BIGINT  NOT NULL,
    frozen   BOOLEAN NOT NULL
);
INSERT INTO control_state (id, revision, frozen) VALUES (1, 0, FALSE);

CREATE TABLE job_controls (
    cluster   TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    mode      TEXT COLLATE "C",
    paused    BOOLEAN NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);

-- Who said what. The three parts are empty where it was about everything.
CREATE TABLE audit (
    sequence  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms     BIGINT NOT NULL,
    who       TEXT COLLATE "C" NOT NULL,
    what      TEXT COLLATE "C" NOT NULL,
    cluster   TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    detail    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ms);

-- The analyzer's state: the row that points to the blob is the commit.
CREATE TABLE blobs (
    id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard TEXT COLLATE "C" NOT NULL,
    bytes BYTEA NOT NULL
);
CREATE INDEX blobs_by_shard ON blobs (shard);

-- An empty blob_ref: the shard was claimed, and nothing was committed yet.
CREATE TABLE checkpoints (
    shard           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    epoch           BIGINT NOT NULL,
    format          BIGINT NOT NULL,
    blob_ref        TEXT COLLATE "C" NOT NULL,
    positions       TEXT COLLATE "C" NOT NULL,
    decided_through TEXT COLLATE "C" NOT NULL,
    written_ms      BIGINT NOT NULL
);

-- Decisions that differ from the one before, and the latest of each job whether it differs or not.
CREATE TABLE decisions (
    sequence      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            TEXT COLLATE "C" NOT NULL UNIQUE,
    cluster       TEXT COLLATE "C" NOT NULL,
    namespace     TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    decided_at_ms BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    body          TEXT COLLATE "C" NOT NULL
);
CREATE INDEX decisions_by_job ON decisions (cluster, namespace, name, decided_at_ms);
CREATE INDEX decisions_by_time ON decisions (decided_at_ms);

CREATE TABLE latest_decisions (
    cluster       TEXT COLLATE "C" NOT NULL,
    namespace     TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    decided_at_ms BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    body          TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);
CREATE INDEX latest_decisions_by_id ON latest_decisions (id);

-- The highest number of a plan of each job. Apart from decisions and actions, since it must outlive their pruning.
CREATE TABLE plan_numbers (
    cluster   TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    highest   BIGINT NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);

-- What has to be published, in the transaction that made it true.
CREATE TABLE outbox (
    sequence    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner       TEXT COLLATE "C" NOT NULL,
    log         TEXT COLLATE "C" NOT NULL,
    log_part    BIGINT NOT NULL,
    message_key TEXT COLLATE "C" NOT NULL,
    payload     BYTEA   NOT NULL
);
CREATE INDEX outbox_by_owner ON outbox (owner, sequence);

-- Commands that the actuator claimed.
CREATE TABLE actions (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    cluster      TEXT COLLATE "C" NOT NULL,
    namespace    TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    run_id       TEXT COLLATE "C" NOT NULL,
    run_start_ms BIGINT  NOT NULL,
    decision_id  TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    open         BOOLEAN NOT NULL,
    restarted    BOOLEAN NOT NULL,
    restarted_ms BIGINT,
    epoch        BIGINT  NOT NULL,
    plan_number  BIGINT  NOT NULL,
    created_ms   BIGINT  NOT NULL,
    updated_ms   BIGINT  NOT NULL,
    body         TEXT COLLATE "C" NOT NULL
);
CREATE INDEX actions_by_job ON actions (cluster, namespace, name, created_ms);
CREATE INDEX actions_by_decision ON actions (decision_id);
CREATE INDEX actions_open ON actions (open, updated_ms);

-- How far each consumer has read each log.
CREATE TABLE consumer_positions (
    consumer    TEXT COLLATE "C" NOT NULL,
    log         TEXT COLLATE "C" NOT NULL,
    log_part    BIGINT NOT NULL,
    incarnation TEXT COLLATE "C" NOT NULL,
    position    BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    PRIMARY KEY (consumer, log, log_part)
);

-- What people ask the services to do with an action.
CREATE TABLE requests (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         TEXT COLLATE "C" NOT NULL,
    action_id    TEXT COLLATE "C" NOT NULL,
    cluster      TEXT COLLATE "C" NOT NULL,
    namespace    TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    requested_by TEXT COLLATE "C" NOT NULL,
    requested_ms BIGINT  NOT NULL,
    open         BOOLEAN NOT NULL,
    closed_ms    BIGINT,
    result       TEXT COLLATE "C"
);
CREATE INDEX requests_open ON requests (open, closed_ms);

-- Who may do what alone, until when. Rows stay when a lease is released, so that epochs rise for ever.
CREATE TABLE leases (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner      TEXT COLLATE "C" NOT NULL,
    epoch      BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
