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
-- on that batch and when it was written; `expiry` is when a source is forgotten, if it is. `incarnation` is who cut the
-- last batch of a process, and `since` the last sequence of the one before: see `StoredFence`.
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

-- A window of a counter: it begins at `start` and counts until `expiry`, from when on the row is as good as deleted.
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

-- What was counted once in a window, until the same expiry.
CREATE TABLE IF NOT EXISTS access_window_token (
    window_id INTEGER NOT NULL,
    token     BLOB NOT NULL,
    expiry    INTEGER NOT NULL,
    PRIMARY KEY (window_id, token)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS access_window_token_expiry ON access_window_token (expiry);

-- A counter of distinct items: `registers` is NULL while the items are kept, and `items` is how many these are.
-- The name begins with the kind.
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

-- How far the buckets of another store were copied, by where they start: of counts (`kind` 0) and of visitors (1).
CREATE TABLE IF NOT EXISTS access_archive (
    kind    INTEGER NOT NULL,
    width   INTEGER NOT NULL,
    copied  INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (kind, width)
) STRICT, WITHOUT ROWID;

-- The process that does something alone, until `expiry`.
CREATE TABLE IF NOT EXISTS access_lease (
    name   TEXT    NOT NULL PRIMARY KEY,
    holder TEXT    NOT NULL,
    expiry INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The bins of distributions: `measure` is 1 for the time to the head of a response, 2 for that to the end of its body,
-- 3 for its size, 4 for the status of HTTP and 5 for that of gRPC. `bin` is the index of a range that ends at
-- 2^((bin + 1)/8) seconds or bytes, -32768 for zero, or a status; `expiry` is when the bucket leaves retention.
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

-- Documents, which are replaced only by who has seen the version: the state of alerts, and notes.
CREATE TABLE IF NOT EXISTS access_documents (
    name    BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;

INSERT INTO access_meta (name, value) VALUES ('version', '1') ON CONFLICT DO NOTHING;
