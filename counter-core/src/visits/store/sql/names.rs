//! Looks up the numeric ids of counters by name.

use std::collections::HashMap;

use sqlx::Error as SqlError;

use super::{SqlVisits, malformed};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sql::dialect::Dialect;
use crate::sql::{Class, Failure, Session, Value};

/// Number of names to look up in a statement.
const NAMES_PER_READ: usize = 5000;
/// Number of new names to insert in a statement.
const NAMES_PER_INSERT: usize = 500;
/// Number of names to read as a single text, up to 500 KB.
const NAMES_PER_TEXT: usize = 2000;

/// A counter with a row that is locked by the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockedCounter {
    pub(crate) id: i64,
    /// The lifetime, in hits.
    pub(crate) total: i64,
    /// When the counter was forgotten, in Unix seconds, or 0.
    pub(crate) forgotten: i64,
}

/// Looks up counters by name, creating them if needed, and locks them until the transaction ends, so that
/// other transactions can't write to the same samples and visitors.
///
/// The ids must be read in every transaction. If we cached an id, it would be invalid after the counter was
/// forgotten, or after the database was restored from a backup.
pub(crate) async fn lock<'a>(
    session: &mut Session,
    dialect: &Dialect,
    names: &[&'a str],
) -> Result<HashMap<&'a str, LockedCounter>, Failure> {
    let mut known = lock_existing(session, dialect, names).await?;
    if known.len() < names.len() {
        let new: Vec<_> = names.iter().copied().filter(|name| !known.contains_key(name)).collect();
        for some in new.chunks(NAMES_PER_INSERT) {
            let rows = format!("VALUES {}(?, 0, 0)", "(?, 0, 0), ".repeat(some.len() - 1));
            let text = dialect.insert_new("access_counter (name, total, forgotten)", &rows);
            session.execute(&text, &some.iter().map(|name| Value::Text(name)).collect::<Vec<_>>()).await?;
        }
        known.extend(lock_existing(session, dialect, &new).await?);
    }
    if known.len() < names.len() {
        // A counter has just been forgotten.
        return Err(Failure::Database(Class::Busy, SqlError::RowNotFound));
    }
    Ok(known)
}

async fn lock_existing<'a>(
    session: &mut Session,
    dialect: &Dialect,
    names: &[&'a str],
) -> Result<HashMap<&'a str, LockedCounter>, Failure> {
    let text = format!(
        "SELECT id, name, total, forgotten FROM access_counter WHERE name {} ORDER BY name{}",
        dialect.in_list, dialect.for_update
    );
    let mut known = HashMap::with_capacity(names.len());
    for some in names.chunks(NAMES_PER_READ) {
        for row in session.fetch(&text, &[Value::Texts(some)]).await? {
            let name = row.text(1)?;
            // This works because names are sorted.
            if let Ok(index) = some.binary_search(&&*name) {
                let counter = LockedCounter { id: row.int(0)?, total: row.int(2)?, forgotten: row.int(3)? };
                known.insert(some[index], counter);
            }
        }
    }
    Ok(known)
}

/// Returns a numeric column of the existing counters, by name.
pub(crate) async fn numbers(
    store: &SqlVisits,
    counters: &[CounterName],
    column: &str,
) -> Result<HashMap<String, i64>, Error> {
    let dialect = store.database.dialect();
    let (lines, in_list) = (dialect.lines(&[column, "name"]), dialect.in_list);
    let text = format!("SELECT {lines} FROM access_counter WHERE name {in_list}");
    let names: Vec<&str> = counters.iter().map(|name| &**name).collect();
    let mut numbers = HashMap::with_capacity(names.len());
    for some in names.chunks(NAMES_PER_TEXT) {
        for row in store.database.fetch(&text, &[Value::Texts(some)]).await? {
            for line in row.optional_text(0)?.unwrap_or_default().lines() {
                let (number, name) = line.split_once(' ').ok_or_else(|| malformed("access_counter"))?;
                numbers.insert(name.to_owned(), number.parse().map_err(|_| malformed("access_counter"))?);
            }
        }
    }
    Ok(numbers)
}
