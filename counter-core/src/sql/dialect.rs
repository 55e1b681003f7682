//! Differences between the supported databases.

use std::fmt::Write;

use sqlx::Error as SqlError;
use sqlx::error::DatabaseError;

use super::failure::{Class, Failure};

/// Expressions and statements that differ between databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// The display name of the database, also returned as the kind of the store.
    pub(crate) name: &'static str,
    /// An expression for the time of the database clock, in Unix seconds.
    pub(crate) now: &'static str,
    /// Begins a write transaction.
    pub(super) begin: &'static str,
    /// Begins a write transaction and selects the table version, in a single round trip.
    pub(super) begin_with_version: &'static str,
    /// A condition that the preceding column is in a [list](super::Value::Ints) of numbers or strings.
    pub(crate) in_list: &'static str,
    /// Converts [pairs](super::Value::Pairs) into a table `pair` with the columns `id` and `n`.
    pub(crate) pairs: &'static str,
    /// Locks the selected rows until the transaction ends.
    pub(crate) for_update: &'static str,
    /// Appended when selecting rows to delete, in order to skip rows locked by other transactions.
    pub(super) skip_locked: &'static str,
    /// An aggregate that joins lines into a single string, with `{}` as the placeholder for a line, and the
    /// strings to put before, between and after the columns of a line.
    pub(super) lines: (&'static str, [&'static str; 3]),
    /// The function that returns the larger of two numbers.
    pub(crate) greatest: &'static str,
    /// True if the second table of an `UPDATE` is named in a `FROM` clause, false if before `SET`.
    pub(super) updates_from: bool,
    /// True if `INSERT` supports `ON CONFLICT`.
    pub(crate) on_conflict: bool,
    /// True if `DELETE` supports `LIMIT`.
    pub(super) limits_delete: bool,
    /// Selects the reason if the database is not suitable. Empty if there is nothing to check.
    pub(super) unsuitable: &'static str,
    /// Statements to set up a new connection. Can be empty.
    pub(super) settings: &'static str,
    /// The [schema](super::schema::Schema) steps.
    pub(super) schema: &'static [&'static str],
    /// Statements to lock and unlock the schema. Empty if the transaction is sufficient.
    pub(super) lock: [&'static str; 2],
    /// Statements that create the entity tables.
    pub(crate) entity_schema: &'static str,
    /// Classifies an error returned by the database.
    pub(crate) classify: fn(&dyn DatabaseError) -> Class,
}

impl Dialect {
    /// Converts an `sqlx` error into a failure.
    pub(crate) fn failure(&self, error: SqlError) -> Failure {
        match &error {
            SqlError::Database(reply) => Failure::Database((self.classify)(&**reply), error),
            _ => Failure::NoResponse(error),
        }
    }

    /// Writes an aggregate that returns all rows as lines, in any order, with the columns separated by a
    /// blank. Thousands of rows take far longer to fetch than a single row with the same data.
    pub(crate) fn lines(&self, columns: &[&str]) -> String {
        let (all, [open, between, close]) = self.lines;
        all.replace("{}", &format!("{open}{}{close}", columns.join(between)))
    }

    /// Writes an `INSERT` that does not change existing rows. `rows` is appended to the columns.
    pub(crate) fn insert_new(&self, into: &str, rows: &str) -> String {
        if self.on_conflict {
            format!("INSERT INTO {into} {rows} ON CONFLICT DO NOTHING")
        } else {
            format!("INSERT IGNORE INTO {into} {rows}")
        }
    }

    /// Writes an `INSERT` that updates columns in existing rows. In column values, `{new}` refers to the new
    /// row, and `{old}` to the existing row.
    pub(crate) fn upsert(
        &self,
        table: &str,
        columns: &str,
        rows: &str,
        keys: &str,
        set: &[(&str, &str)],
    ) -> String {
        let mut text = format!("INSERT INTO {table} ({columns}) {rows} ");
        match self.on_conflict {
            true => write!(text, "ON CONFLICT ({keys}) DO UPDATE SET ").expect("memory takes everything"),
            false => text.push_str("ON DUPLICATE KEY UPDATE "),
        }
        for (index, (column, value)) in set.iter().enumerate() {
            let (new, old) = match self.on_conflict {
                true => (format!("excluded.{column}"), format!("{table}.{column}")),
                false => (format!("VALUES({column})"), (*column).to_owned()),
            };
            let value = value.replace("{new}", &new).replace("{old}", &old);
            let comma = if index == 0 { "" } else { ", " };
            write!(text, "{comma}{column} = {value}").expect("memory takes everything");
        }
        text
    }

    /// Writes a `DELETE` with a row limit. `keys` must be the primary key columns.
    pub(crate) fn delete_some(&self, table: &str, keys: &str, condition: &str, limit: i64) -> String {
        if self.limits_delete {
            return format!("DELETE FROM {table} WHERE {condition} LIMIT {limit}");
        }
        let skip_locked = self.skip_locked;
        format!(
            "DELETE FROM {table} WHERE ({keys}) IN \
             (SELECT {keys} FROM {table} WHERE {condition} LIMIT {limit}{skip_locked})"
        )
    }

    /// Writes an `UPDATE` using pairs. The table is aliased as `kept`. `value` can refer to `pair.n`, and the
    /// condition selects the rows.
    pub(crate) fn update_by_pairs(&self, table: &str, column: &str, value: &str, condition: &str) -> String {
        let pairs = self.pairs;
        if self.updates_from {
            format!("UPDATE {table} AS kept SET {column} = {value} FROM {pairs} WHERE {condition}")
        } else {
            format!("UPDATE {table} AS kept JOIN {pairs} SET kept.{column} = {value} WHERE {condition}")
        }
    }
}
