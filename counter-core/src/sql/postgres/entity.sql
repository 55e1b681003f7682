-- Prevents a catalogue conflict if two instances create a table concurrently. The number identifies the lock.
SELECT pg_advisory_xact_lock(7161143094257);

CREATE TABLE IF NOT EXISTS access_entity (
    kind    TEXT COLLATE "C" NOT NULL,
    entity  TEXT COLLATE "C" NOT NULL,
    field   TEXT COLLATE "C" NOT NULL,
    value   BIGINT           NOT NULL,
    version BIGINT           NOT NULL,
    PRIMARY KEY (kind, entity, field)
);

CREATE TABLE IF NOT EXISTS access_entity_fence (
    writer   TEXT   NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    refused  BIGINT NOT NULL,
    written  BIGINT NOT NULL
);
