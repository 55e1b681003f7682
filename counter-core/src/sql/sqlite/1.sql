-- What the store knows about itself: `version`, and the marks `data` and `writers`.
CREATE TABLE IF NOT EXISTS access_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `total` is everything that the counter ever counted; `forgotten` is when it was forgotten, or 0.
CREATE TABLE IF NOT EXISTS access_counter (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT    NOT NULL UNIQUE,
    total     INTEGER NOT NULL,
    forgotten INTEGER NOT NULL
) STRICT;

-- `width` is the precision in seconds; where its buckets begin later, the offset times 2^32 is added.
-- `bucket` is the start, in Unix seconds. What is written together lies together, and so does what is cleaned.
CREATE TABLE IF NOT EXISTS access_sample (
    width   INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) STRICT, WITHOUT ROWID;

-- The counters that have samples of a precision, with their latest bucket.
CREATE TABLE IF NOT EXISTS access_known (
    width   INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    latest  INTEGER NOT NULL,
    PRIMARY KEY (width, counter)
) STRICT, WITHOUT ROWID;

-- HyperLogLogs as Redis stores them, sparse while that is shorter; `expiry` is when the bucket leaves retention.
CREATE TABLE IF NOT EXISTS access_visitors (
    width     INTEGER NOT NULL,
    bucket    INTEGER NOT NULL,
    counter   INTEGER NOT NULL,
    expiry    INTEGER NOT NULL,
    registers BLOB    NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) STRICT;

CREATE INDEX IF NOT EXISTS access_visitors_expiry ON access_visitors (expiry);

-- The last batch of each process (`kind` 0), or the position up to which a source is counted (1), with the remarks
-- on that batch and when it was written; `expiry` is when a source is forgotten, if it is.
CREATE TABLE IF NOT EXISTS access_fence (
    writer   TEXT    NOT NULL PRIMARY KEY,
    kind     INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    remarks  TEXT    NOT NULL,
    written  INTEGER NOT NULL,
    expiry   INTEGER
) STRICT, WITHOUT ROWID;

-- The processes that know that a counter was forgotten.
CREATE TABLE IF NOT EXISTS access_told (
    counter INTEGER NOT NULL,
    writer  TEXT    NOT NULL,
    PRIMARY KEY (counter, writer)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS access_salt (
    width  INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    salt   BLOB    NOT NULL,
    expiry INTEGER NOT NULL,
    PRIMARY KEY (width, bucket)
) STRICT, WITHOUT ROWID;

INSERT INTO access_meta (name, value) VALUES ('version', '1') ON CONFLICT DO NOTHING;
