//! The differences between the databases.

use std::fmt::Write;

use sqlx::Error as SqlError;
use sqlx::error::DatabaseError;

use super::failure::{Class, Failure};

/// The expressions and statements that differ between the databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// The name of the database, for people.
    pub(crate) name: &'static str,
    /// The Unix time of the database's clock.
    pub(crate) now: &'static str,
    /// The statement that begins a transaction for writing.
    pub(super) begin: &'static str,
    /// The same, and a statement that returns the version of the tables: one request to a server.
    pub(super) begin_with_version: &'static str,
    /// A comparison with a [list](super::Value::Ints) of numbers or texts.
    pub(crate) in_list: &'static str,
    /// The rows of [pairs](super::Value::Pairs), as a table `pair` with the columns `id` and `n`.
    pub(crate) pairs: &'static str,
    /// Locks the rows of a `SELECT` until the transaction ends.
    pub(crate) for_update: &'static str,
    /// The end of the `SELECT` of rows to delete, which skips rows that another transaction has locked.
    pub(super) skip_locked: &'static str,
    /// An aggregate that joins the lines of all rows into one text, where `{}` is a line; and the text before, between
    /// and after the columns of a line.
    pub(super) lines: (&'static str, [&'static str; 3]),
    /// The larger of two numbers: the name of the function.
    pub(crate) greatest: &'static str,
    /// Whether an `UPDATE` names a second table after `FROM`, and not before `SET`.
    pub(super) updates_from: bool,
    /// Whether an `INSERT` handles existing rows by `ON CONFLICT`.
    pub(crate) on_conflict: bool,
    /// Whether a `DELETE` can have a `LIMIT`.
    pub(super) limits_delete: bool,
    /// A statement that returns the reason if the database cannot be used; empty if it always can.
    pub(super) unfit: &'static str,
    /// Statements that set up each connection; empty if there are none.
    pub(super) settings: &'static str,
    /// The steps of the [schema](super::schema::Schema).
    pub(super) schema: &'static [&'static str],
    /// Statements that keep other processes from changing the schema, and let them continue; empty where a transaction
    /// does so.
    pub(super) lock: [&'static str; 2],
    /// The tables of entities.
    pub(crate) entity_schema: &'static str,
    /// Returns the meaning of an error that the database returned.
    pub(crate) classify: fn(&dyn DatabaseError) -> Class,
}

impl Dialect {
    /// Returns the failure that an error stands for.
    pub(crate) fn failure(&self, error: SqlError) -> Failure {
        match &error {
            SqlError::Database(answer) => Failure::Answer((self.classify)(&**answer), error),
            _ => Failure::Silence(error),
        }
    }

    /// Writes an aggregate that answers with a line for each row, in any order, and in it these columns with a blank
    /// between them: thousands of rows take far longer than one that is as long.
    pub(crate) fn lines(&self, columns: &[&str]) -> String {
        let (all, [open, between, close]) = self.lines;
        all.replace("{}", &format!("{open}{}{close}", columns.join(between)))
    }

    /// Writes an `INSERT` that does not change existing rows; `rows` is the text after the columns.
    pub(crate) fn insert_new(&self, into: &str, rows: &str) -> String {
        if self.on_conflict {
            format!("INSERT INTO {into} {rows} ON CONFLICT DO NOTHING")
        } else {
            format!("INSERT IGNORE INTO {into} {rows}")
        }
    }

    /// Writes an `INSERT` that sets columns of existing rows. In the value of a column, `{new}` is the value of the new
    /// row, and `{old}` that of the existing row.
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
        for (place, (column, value)) in set.iter().enumerate() {
            let (new, old) = match self.on_conflict {
                true => (format!("excluded.{column}"), format!("{table}.{column}")),
                false => (format!("VALUES({column})"), (*column).to_owned()),
            };
            let value = value.replace("{new}", &new).replace("{old}", &old);
            let comma = if place == 0 { "" } else { ", " };
            write!(text, "{comma}{column} = {value}").expect("memory takes everything");
        }
        text
    }

    /// Writes a `DELETE` of at most this number of rows; `keys` are the columns of the primary key.
    pub(crate) fn delete_some(&self, table: &str, keys: &str, such: &str, most: i64) -> String {
        if self.limits_delete {
            return format!("DELETE FROM {table} WHERE {such} LIMIT {most}");
        }
        let skip_locked = self.skip_locked;
        format!(
            "DELETE FROM {table} WHERE ({keys}) IN \
             (SELECT {keys} FROM {table} WHERE {such} LIMIT {most}{skip_locked})"
        )
    }

    /// Writes an `UPDATE` of a table, as `kept`, by pairs: `set` may name `pair.n`, and `such` names the rows.
    pub(crate) fn update_by_pairs(&self, table: &str, column: &str, value: &str, such: &str) -> String {
        let pairs = self.pairs;
        if self.updates_from {
            format!("UPDATE {table} AS kept SET {column} = {value} FROM {pairs} WHERE {such}")
        } else {
            format!("UPDATE {table} AS kept JOIN {pairs} SET kept.{column} = {value} WHERE {such}")
        }
    }
}
