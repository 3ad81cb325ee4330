-- Processes that are there, on the clock of leases.
CREATE TABLE instances (
    role       TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    tags       TEXT COLLATE "C" NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms    BIGINT NOT NULL,
    PRIMARY KEY (role, id)
);
