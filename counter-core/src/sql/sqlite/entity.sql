CREATE TABLE IF NOT EXISTS access_entity (
    kind    TEXT    NOT NULL,
    entity  TEXT    NOT NULL,
    field   TEXT    NOT NULL,
    value   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (kind, entity, field)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS access_entity_fence (
    writer   TEXT    NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL,
    refused  INTEGER NOT NULL,
    written  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
