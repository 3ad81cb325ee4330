-- The control database, first version. Small things only: metrics never come here.
--
-- Times are BIGINT milliseconds since 1970, numbers BIGINT, JSON is TEXT. Whatever belongs to a job carries the three
-- parts of its key. Only the definition of tables differs between databases (AUTOINCREMENT, BLOB here); every other
-- statement is one text for all of them.
--
-- Migrations only add. What an older version could not read or would damage raises data_format.version.

CREATE TABLE data_format (
    id      BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO data_format (id, version) VALUES (1, 1);

-- Jobs that were seen.
CREATE TABLE jobs (
    cluster       TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    run_id        TEXT   NOT NULL,
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
    cluster   TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    mode      TEXT,
    paused    BOOLEAN NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);

-- Who said what. The three parts are empty where it was about everything.
CREATE TABLE audit (
    sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     BIGINT NOT NULL,
    who       TEXT   NOT NULL,
    what      TEXT   NOT NULL,
    cluster   TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    detail    TEXT   NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ms);

-- The analyzer's state: the row that points to the blob is the commit.
CREATE TABLE blobs (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    shard TEXT NOT NULL,
    bytes BLOB NOT NULL
);
CREATE INDEX blobs_by_shard ON blobs (shard);

-- An empty blob_ref: the shard was claimed, and nothing was committed yet.
CREATE TABLE checkpoints (
    shard           TEXT   NOT NULL PRIMARY KEY,
    epoch           BIGINT NOT NULL,
    format          BIGINT NOT NULL,
    blob_ref        TEXT   NOT NULL,
    positions       TEXT   NOT NULL,
    decided_through TEXT   NOT NULL,
    written_ms      BIGINT NOT NULL
);

-- Decisions that differ from the one before, and the latest of each job whether it differs or not.
CREATE TABLE decisions (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT   NOT NULL UNIQUE,
    cluster       TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    decided_at_ms BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    body          TEXT   NOT NULL
);
CREATE INDEX decisions_by_job ON decisions (cluster, namespace, name, decided_at_ms);
CREATE INDEX decisions_by_time ON decisions (decided_at_ms);

CREATE TABLE latest_decisions (
    cluster       TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    id            TEXT   NOT NULL,
    decided_at_ms BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    body          TEXT   NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);
CREATE INDEX latest_decisions_by_id ON latest_decisions (id);

-- The highest number of a plan of each job. Apart from decisions and actions, since it must outlive their pruning.
CREATE TABLE plan_numbers (
    cluster   TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    highest   BIGINT NOT NULL,
    PRIMARY KEY (cluster, namespace, name)
);

-- What has to be published, in the transaction that made it true.
CREATE TABLE outbox (
    sequence    INTEGER PRIMARY KEY AUTOINCREMENT,
    owner       TEXT   NOT NULL,
    log         TEXT   NOT NULL,
    log_part    BIGINT NOT NULL,
    message_key TEXT   NOT NULL,
    payload     BLOB   NOT NULL
);
CREATE INDEX outbox_by_owner ON outbox (owner, sequence);

-- Commands that the actuator claimed.
CREATE TABLE actions (
    id           TEXT    NOT NULL PRIMARY KEY,
    cluster      TEXT    NOT NULL,
    namespace    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    run_id       TEXT    NOT NULL,
    run_start_ms BIGINT  NOT NULL,
    decision_id  TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    open         BOOLEAN NOT NULL,
    restarted    BOOLEAN NOT NULL,
    restarted_ms BIGINT,
    epoch        BIGINT  NOT NULL,
    plan_number  BIGINT  NOT NULL,
    created_ms   BIGINT  NOT NULL,
    updated_ms   BIGINT  NOT NULL,
    body         TEXT    NOT NULL
);
CREATE INDEX actions_by_job ON actions (cluster, namespace, name, created_ms);
CREATE INDEX actions_by_decision ON actions (decision_id);
CREATE INDEX actions_open ON actions (open, updated_ms);

-- How far each consumer has read each log.
CREATE TABLE consumer_positions (
    consumer    TEXT   NOT NULL,
    log         TEXT   NOT NULL,
    log_part    BIGINT NOT NULL,
    incarnation TEXT   NOT NULL,
    position    BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    PRIMARY KEY (consumer, log, log_part)
);

-- What people ask the services to do with an action.
CREATE TABLE requests (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT    NOT NULL,
    action_id    TEXT    NOT NULL,
    cluster      TEXT    NOT NULL,
    namespace    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    requested_by TEXT    NOT NULL,
    requested_ms BIGINT  NOT NULL,
    open         BOOLEAN NOT NULL,
    closed_ms    BIGINT,
    result       TEXT
);
CREATE INDEX requests_open ON requests (open, closed_ms);

-- Who may do what alone, until when. Rows stay when a lease is released, so that epochs rise for ever.
CREATE TABLE leases (
    name       TEXT   NOT NULL PRIMARY KEY,
    owner      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
