-- Processes that are there, on the clock of leases.
CREATE TABLE instances (
    role       TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    tags       TEXT   NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms    BIGINT NOT NULL,
    PRIMARY KEY (role, id)
);
