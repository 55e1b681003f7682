use sqlx::MySql;
use sqlx::error::DatabaseError;

use super::{Server, sql_database};
use crate::entity::EntityErrorKind;
use crate::sql::mariadb::classify;

/// A database of entity counts in MariaDB, version 10.5 or later.
///
/// MySQL is not supported: an `INSERT` there cannot return the row.
#[derive(Clone, Debug)]
pub struct MariaDatabase(sqlx::Pool<MySql>, Server);

sql_database! {
    MariaDatabase of MySql {
        place: Server,
        schema: include_str!("mariadb.sql"),
        now: "UNIX_TIMESTAMP()",
        insert_new: ("INSERT IGNORE INTO", ""),
        add: "ON DUPLICATE KEY UPDATE value = value + VALUES(value), version = version + 1",
        explain: explain,
    }
}

fn explain(answer: &dyn DatabaseError) -> EntityErrorKind {
    classify(answer).into()
}
