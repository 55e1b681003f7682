use std::fmt::Write;
use std::sync::Arc;

use sqlx::MySql;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};

use super::database::Database;
use super::dialect::Dialect;
use super::driver::driver;
use super::failure::Class;
use super::pools::{Pools, pool_options};
use super::schema::Settings;
use super::statement::json;

/// Creates a database. Connections will be opened on demand.
pub(crate) fn open(options: MySqlConnectOptions, settings: Settings) -> Database {
    let connections = Arc::default();
    let pool = pool_options::<MySql>(settings.max_connections, &connections).connect_lazy_with(options);
    Database::new(DIALECT, Pools::new(pool.clone(), pool, None, settings), connections)
}

const DIALECT: &Dialect = &Dialect {
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
    unsuitable: "SELECT 'the server uses statement-based replication, which does not support READ COMMITTED \
            transactions: set binlog_format to MIXED or ROW' \
            FROM DUAL WHERE @@log_bin = 1 AND @@binlog_format = 'STATEMENT'",
    // Transactions read committed rows and do not lock the gaps between rows. A process that stops in the
    // middle of a transaction can block others for ten seconds at most. Long name lists must not be converted
    // into a table: MariaDB would scan it for each counter, and lock rows in that order.
    settings: "SET SESSION tx_isolation = 'READ-COMMITTED', innodb_lock_wait_timeout = 4, idle_transaction_timeout = 10, \
               group_concat_max_len = 16777216, in_predicate_conversion_threshold = 0",
    schema: &[include_str!("mariadb/6.sql")],
    lock: ["DO GET_LOCK('access_counter', 30)", "DO RELEASE_LOCK('access_counter')"],
    entity_schema: include_str!("mariadb/entity.sql"),
    classify,
};

driver! {
    MySql, sqlx::MySqlConnection, sqlx::mysql::MySqlRow, query,
    numbers => {
        let mut list = query.separated(", ");
        for number in numbers {
            list.push_bind(*number);
        }
    },
    strings => {
        let mut list = query.separated(", ");
        for text in strings {
            list.push_bind(*text);
        }
    },
    pairs => drop(query.push_bind(json_pairs(pairs)))
}

fn json_pairs(all: &[(i64, i64)]) -> String {
    json(all, ['[', ']'], |text, (id, number)| write!(text, "[{id},{number}]"))
}

/// Classifies a MariaDB error.
fn classify(reply: &dyn DatabaseError) -> Class {
    match reply.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number) {
        // ER_DATA_OUT_OF_RANGE, for expressions and for columns.
        Some(1690 | 1264) => Class::OutOfRange,
        // Lock wait timeout, deadlock, and row changed since the snapshot.
        Some(1205 | 1213 | 1020) => Class::Busy,
        // ER_DISK_FULL and ER_RECORD_FILE_FULL.
        Some(1021 | 1114) => Class::Full,
        // Server shutting down, or connection or query killed.
        Some(1053 | 1317 | 1927) => Class::Unconfirmed,
        Some(1146) => Class::NoTable,
        _ => Class::Rejected,
    }
}
