use sqlx::MySql;
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

use super::sql_database;
use crate::entity::EntityErrorKind;

/// A database of entity counts in MariaDB, version 10.5 or later.
///
/// MySQL is not supported: an `INSERT` there cannot return the row.
#[derive(Clone, Debug)]
pub struct MariaDatabase(sqlx::Pool<MySql>);

sql_database! {
    MariaDatabase of MySql {
        schema: include_str!("mariadb.sql"),
        now: "UNIX_TIMESTAMP()",
        insert_new: ("INSERT IGNORE INTO", ""),
        add: "ON DUPLICATE KEY UPDATE value = value + VALUES(value), version = version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    match answer.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number) {
        // ER_DATA_OUT_OF_RANGE, for an expression and for a column.
        Some(1690 | 1264) => EntityErrorKind::OutOfRange,
        // A lock that took too long, a deadlock, and a row that changed since the snapshot.
        Some(1205 | 1213 | 1020) => EntityErrorKind::Busy,
        // The server is shutting down, or the connection or the query was killed.
        Some(1053 | 1317 | 1927) => EntityErrorKind::Unconfirmed,
        _ => EntityErrorKind::Refused,
    }
}
