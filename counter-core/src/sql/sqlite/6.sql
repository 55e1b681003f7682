-- Store metadata: `version`, and the markers `data` and `writers`.
CREATE TABLE IF NOT EXISTS access_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `total` is the number of hits ever counted; `forgotten` is the time at which the counter was forgotten, or
-- 0.
CREATE TABLE IF NOT EXISTS access_counter (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT    NOT NULL UNIQUE,
    total     INTEGER NOT NULL,
    forgotten INTEGER NOT NULL
) STRICT;

-- `width` is the precision in seconds, plus the offset times 2^32 if buckets are shifted. `bucket` is the
-- start in Unix seconds. The key order clusters the rows that are written or cleaned up in the same batch.
CREATE TABLE IF NOT EXISTS access_sample (
    width   INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) STRICT, WITHOUT ROWID;

-- Counters that have samples for a precision, with the latest bucket.
CREATE TABLE IF NOT EXISTS access_known (
    width   INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    latest  INTEGER NOT NULL,
    PRIMARY KEY (width, counter)
) STRICT, WITHOUT ROWID;

-- HyperLogLogs in Redis encoding, sparse if this is shorter; `expiry` is the end of retention for the bucket.
CREATE TABLE IF NOT EXISTS access_visitors (
    width     INTEGER NOT NULL,
    bucket    INTEGER NOT NULL,
    counter   INTEGER NOT NULL,
    expiry    INTEGER NOT NULL,
    registers BLOB    NOT NULL,
    PRIMARY KEY (width, bucket, counter)
) STRICT;

CREATE INDEX IF NOT EXISTS access_visitors_expiry ON access_visitors (expiry);

-- The latest batch per process (`kind` 0), or the counted position of a source (1), with the remarks for this
-- batch and the time at which it was written. `expiry` is the time at which a source is forgotten, if any.
-- `incarnation` identifies the process run that cut the latest batch, and `since` is the last sequence of the
-- previous run: see `StoredFence`.
CREATE TABLE IF NOT EXISTS access_fence (
    writer      TEXT    NOT NULL PRIMARY KEY,
    kind        INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    remarks     TEXT    NOT NULL,
    written     INTEGER NOT NULL,
    expiry      INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 0,
    since       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Processes that have been notified of a forgotten counter.
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

-- A counter window: it starts at `start` and counts until `expiry`. Expired rows are treated as deleted.
CREATE TABLE IF NOT EXISTS access_window (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    counter TEXT NOT NULL,
    width   INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    expiry  INTEGER NOT NULL,
    UNIQUE (counter, width, start)
) STRICT;

CREATE INDEX IF NOT EXISTS access_window_expiry ON access_window (expiry);

-- Tokens already counted in a window, with the same expiry.
CREATE TABLE IF NOT EXISTS access_window_token (
    window_id INTEGER NOT NULL,
    token     BLOB NOT NULL,
    expiry    INTEGER NOT NULL,
    PRIMARY KEY (window_id, token)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS access_window_token_expiry ON access_window_token (expiry);

-- Counters for distinct items: `registers` is NULL as long as the items are stored, and `items` is the number
-- of stored items. The name starts with the kind.
CREATE TABLE IF NOT EXISTS access_unique (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT NOT NULL UNIQUE,
    items     INTEGER NOT NULL,
    registers BLOB
) STRICT;

CREATE TABLE IF NOT EXISTS access_unique_item (
    counter INTEGER NOT NULL,
    item    BLOB NOT NULL,
    PRIMARY KEY (counter, item)
) STRICT, WITHOUT ROWID;

-- Progress of copying buckets from another store, as bucket starts: for counts (`kind` 0) and visitors (1).
CREATE TABLE IF NOT EXISTS access_archive (
    kind    INTEGER NOT NULL,
    width   INTEGER NOT NULL,
    copied  INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (kind, width)
) STRICT, WITHOUT ROWID;

-- The process that holds an exclusive lease, until `expiry`.
CREATE TABLE IF NOT EXISTS access_lease (
    name   TEXT    NOT NULL PRIMARY KEY,
    holder TEXT    NOT NULL,
    expiry INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Distribution bins: `measure` is 1 for the time to the response head, 2 for the time to the end of the body,
-- 3 for the response size, 4 for the HTTP status and 5 for the gRPC status. `bin` is the index of a range
-- that ends at 2^((bin + 1)/8) seconds or bytes, -32768 for zero, or a status; `expiry` is the end of
-- retention for the bucket.
CREATE TABLE IF NOT EXISTS access_bins (
    width   INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    bin     INTEGER NOT NULL,
    expiry  INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    PRIMARY KEY (width, bucket, counter, measure, bin)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS access_bins_expiry ON access_bins (expiry);

-- Documents, i.e. the alert state and notes. They are replaced via compare-and-swap on the version.
CREATE TABLE IF NOT EXISTS access_documents (
    name    BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;

INSERT INTO access_meta (name, value) VALUES ('version', '6') ON CONFLICT DO NOTHING;
