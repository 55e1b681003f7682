use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

use super::{Class, Dialect};

pub(super) const DIALECT: Dialect = Dialect {
    name: "MariaDB",
    now: "CAST(UNIX_TIMESTAMP() AS SIGNED)",
    begin: "START TRANSACTION",
    begin_with_version: "START TRANSACTION; SELECT value FROM access_meta WHERE name = 'version'",
    in_list: "IN (?)",
    pairs: "JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', n BIGINT PATH '$[1]')) AS pair",
    for_update: " FOR UPDATE",
    skip_locked: "",
    lines: ("GROUP_CONCAT({} SEPARATOR '\n')", ["CONCAT(", ", ' ', ", ")"]),
    greatest: "GREATEST",
    updates_from: false,
    on_conflict: false,
    limits_delete: true,
    unfit: "SELECT 'the server replicates by statements, which transactions that do not lock gaps cannot be written \
            as: set binlog_format to MIXED or ROW' \
            FROM DUAL WHERE @@log_bin = 1 AND @@binlog_format = 'STATEMENT'",
};

/// The settings of every connection. What another transaction has committed is seen, and no gap between rows is
/// locked; a process that stops in the middle of a transaction holds up the others for ten seconds at most. A long list of
/// names stays a list of keys: made into a table, it would be searched for each counter, and rows locked in that order.
pub(super) const SETTINGS: &str = "SET SESSION tx_isolation = 'READ-COMMITTED', \
    innodb_lock_wait_timeout = 4, idle_transaction_timeout = 10, group_concat_max_len = 16777216, \
    in_predicate_conversion_threshold = 0";

/// The texts that lead from one version of the schema to the next; the first makes all.
pub(super) const STEPS: [&str; 5] = [
    include_str!("mariadb/1.sql"),
    include_str!("mariadb/2.sql"),
    include_str!("mariadb/3.sql"),
    include_str!("mariadb/4.sql"),
    include_str!("mariadb/5.sql"),
];

/// Keeps other processes from changing the schema at the same time, and lets them go on.
pub(super) const LOCK: [&str; 2] = ["DO GET_LOCK('access_counter', 30)", "DO RELEASE_LOCK('access_counter')"];

/// Returns what an answer of MariaDB means.
pub(crate) fn classify(answer: &dyn DatabaseError) -> Class {
    match answer.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number) {
        // ER_DATA_OUT_OF_RANGE, for an expression and for a column.
        Some(1690 | 1264) => Class::OutOfRange,
        // A lock that took too long, a deadlock, and a row that changed since the snapshot.
        Some(1205 | 1213 | 1020) => Class::Busy,
        // ER_DISK_FULL, and ER_RECORD_FILE_FULL.
        Some(1021 | 1114) => Class::Full,
        // The server is shutting down, or the connection or the query was killed.
        Some(1053 | 1317 | 1927) => Class::Unconfirmed,
        Some(1146) => Class::NoTable,
        _ => Class::Refused,
    }
}
