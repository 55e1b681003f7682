//! Unique counters in a SQL database. A counter has a row, which is locked by transactions that change the
//! counter, and a row for every item.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::Error as SqlError;

use super::distinct::{Contents, Distinct};
use super::store::{Included, UniqueKey, UniqueKind, UniqueList, UniquePart, UniqueStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::sql::dialect::Dialect;
use crate::sql::{Class, Database, Failure, Session, Value};

/// Maximum number of items to delete per transaction.
const MAX_DELETED: i64 = 10_000;

/// Number of counters on a list page, and of items in a part.
const LIST_PAGE: i64 = 1000;

/// The unique counters of a `SqlStore`.
#[derive(Debug)]
pub(crate) struct SqlUnique {
    database: Arc<Database>,
}

/// The row of a unique counter.
#[derive(Debug)]
struct Counter {
    id: i64,
    /// Number of item rows.
    items: i64,
    registers: Option<Sketch>,
}

impl SqlUnique {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl UniqueStore for SqlUnique {
    fn include<'a>(&'a self, counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> StoreFuture<'a, Included> {
        Box::pin(self.database.attempt(move || include(&self.database, counter, items)))
    }

    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>]) -> StoreFuture<'a, u64> {
        Box::pin(self.database.attempt(move || exclude(&self.database, set, items)))
    }

    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, Distinct> {
        Box::pin(async move {
            let name = counter.to_string();
            let text = format!("SELECT {COLUMNS} {OF_NAME}");
            let rows = self.database.fetch(&text, &[Value::Text(&name)]).await?;
            Ok(match rows.first().map(|row| parse_row(row, &name)).transpose()? {
                Some(Counter { registers: Some(sketch), .. }) => Distinct::estimated(sketch.estimate()),
                Some(Counter { items, .. }) if counter.kind != UniqueKind::Sketch => {
                    Distinct::Exact(u64::try_from(items).map_err(|_| malformed(&name))?)
                }
                _ => empty(counter.kind).count(),
            })
        })
    }

    fn contents<'a>(&'a self, counter: &'a UniqueKey, max: usize) -> StoreFuture<'a, Contents> {
        Box::pin(async move { contents(&self.database, counter, max).await })
    }

    fn list(&self, cursor: Option<Vec<u8>>) -> StoreFuture<'_, UniqueList> {
        Box::pin(async move { list(&self.database, cursor.unwrap_or_default()).await })
    }

    fn part<'a>(&'a self, counter: &'a UniqueKey, cursor: Option<Vec<u8>>) -> StoreFuture<'a, UniquePart> {
        Box::pin(async move { part(&self.database, counter, cursor.unwrap_or_default()).await })
    }

    fn merge_registers<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if counter.kind == UniqueKind::Set {
                return Err(Error::new(ErrorKind::Rejected).caused_by("a set doesn't have registers"));
            }
            if sketch.is_empty() {
                return Ok(());
            }
            self.database.attempt(|| merge_registers(&self.database, counter, sketch)).await
        })
    }

    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            while self.database.attempt(|| remove(&self.database, counter)).await? {}
            Ok(())
        })
    }
}

async fn include(database: &Database, counter: &UniqueKey, items: &[Vec<u8>]) -> Result<Included, Failure> {
    let (dialect, name) = (database.dialect(), counter.to_string());
    let mut session = database.begin().await?;
    let row = lock_or_create_row(&mut session, dialect, &name).await?;
    let max = match counter.kind {
        UniqueKind::Set => i64::MAX,
        UniqueKind::Sketch => 0,
        UniqueKind::Adaptive(threshold) => threshold.items().into(),
    };
    let is_sketch = row.registers.is_some() || max == 0;
    let new = if is_sketch {
        let mut sketch = row.registers.unwrap_or_default();
        let new = items.iter().filter(|item| sketch.insert_element(item)).count() as u64;
        if new > 0 {
            write_registers(&mut session, row.id, &sketch).await?;
        }
        new
    } else {
        let new = insert(&mut session, dialect, row.id, items).await?;
        let held = row.items.saturating_add_unsigned(new);
        if held > max {
            convert(&mut session, row.id, Sketch::new()).await?;
            // Commit even without new items: the threshold may be lower than on the previous call.
            session.commit().await?;
            return Ok(Included { new, exact: false });
        }
        if new > 0 {
            write_items(&mut session, row.id, held).await?;
        }
        return end(session, new, true).await;
    };
    end(session, new, false).await
}

/// Commits the session if there are new items.
async fn end(session: Session, new: u64, exact: bool) -> Result<Included, Failure> {
    if new > 0 {
        session.commit().await?;
    } else {
        session.roll_back().await?;
    }
    Ok(Included { new, exact })
}

async fn exclude(database: &Database, set: &CounterName, items: &[Vec<u8>]) -> Result<u64, Failure> {
    if items.is_empty() {
        return Ok(0);
    }
    let name = UniqueKey { name: set.clone(), kind: UniqueKind::Set }.to_string();
    let mut session = database.begin().await?;
    let Some(row) = lock_row(&mut session, database.dialect(), &name).await? else {
        session.roll_back().await?;
        return Ok(0);
    };
    let marks = format!("?{}", ", ?".repeat(items.len() - 1));
    let text = format!("DELETE FROM access_unique_item WHERE counter = ? AND item IN ({marks})");
    let mut values = vec![Value::Int(row.id)];
    values.extend(items.iter().map(|item| Value::Bytes(item)));
    let excluded = session.execute(&text, &values).await?;
    match row.items.saturating_sub_unsigned(excluded) {
        left if left > 0 => write_items(&mut session, row.id, left).await?,
        _ => delete(&mut session, row.id).await?,
    }
    session.commit().await?;
    Ok(excluded)
}

/// Reads a counter with a single statement, so that an adaptive counter has either items or registers.
async fn contents(database: &Database, counter: &UniqueKey, max: usize) -> Result<Contents, Error> {
    let name = counter.to_string();
    let text = "SELECT id, items, registers, item FROM access_unique \
        LEFT JOIN access_unique_item ON counter = id WHERE name = ? LIMIT ?";
    let limit = i64::try_from(max).map_or(i64::MAX, |max| max.saturating_add(1));
    let rows = database.fetch(text, &[Value::Text(&name), Value::Int(limit)]).await?;
    let Some(first) = rows.first() else { return Ok(empty(counter.kind)) };
    if let Some(sketch) = parse_row(first, &name)?.registers {
        return Ok(Contents::Registers(sketch));
    }
    if counter.kind == UniqueKind::Sketch {
        return Ok(empty(counter.kind));
    }
    if rows.len() > max {
        return Err(Error::new(ErrorKind::TooManyItems { max: max as u64 }));
    }
    let items = rows.iter().filter_map(|row| row.optional_bytes(3).transpose());
    Ok(Contents::Items(items.collect::<Result<HashSet<_>, _>>()?))
}

async fn list(database: &Database, last: Vec<u8>) -> Result<UniqueList, Error> {
    let last = String::from_utf8(last).unwrap_or_default();
    let text = "SELECT name FROM access_unique WHERE name > ? ORDER BY name LIMIT ?";
    let rows = database.fetch(text, &[Value::Text(&last), Value::Int(LIST_PAGE)]).await?;
    let names = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?;
    let is_full = names.len() as u64 == LIST_PAGE.unsigned_abs();
    let next = names.last().filter(|_| is_full).map(|last| last.clone().into_bytes());
    Ok(UniqueList { counters: names.iter().filter_map(|name| UniqueKey::parse(name)).collect(), next })
}

/// Reads a part of the items, in order from `from` (inclusive). If the counter has been converted in the
/// meantime, this returns the registers.
async fn part(database: &Database, counter: &UniqueKey, from: Vec<u8>) -> Result<UniquePart, Error> {
    let name = counter.to_string();
    let text = "SELECT id, items, registers, item FROM access_unique \
        LEFT JOIN access_unique_item ON counter = id AND item >= ? WHERE name = ? ORDER BY item LIMIT ?";
    let values = [Value::Bytes(&from), Value::Text(&name), Value::Int(LIST_PAGE)];
    let rows = database.fetch(text, &values).await?;
    let Some(first) = rows.first() else {
        return Ok(UniquePart { contents: empty(counter.kind), next: None });
    };
    if let Some(sketch) = parse_row(first, &name)?.registers {
        return Ok(UniquePart { contents: Contents::Registers(sketch), next: None });
    }
    let items = rows.iter().filter_map(|row| row.optional_bytes(3).transpose());
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let is_full = items.len() as u64 == LIST_PAGE.unsigned_abs();
    // Appending a zero byte yields the next larger key.
    let next = items.last().filter(|_| is_full).map(|last| [last, &[0][..]].concat());
    Ok(UniquePart { contents: Contents::Items(items.into_iter().collect()), next })
}

async fn merge_registers(database: &Database, counter: &UniqueKey, sketch: &Sketch) -> Result<(), Failure> {
    let mut session = database.begin().await?;
    let row = lock_or_create_row(&mut session, database.dialect(), &counter.to_string()).await?;
    match row.registers {
        None => convert(&mut session, row.id, sketch.clone()).await?,
        Some(mut registers) => {
            registers.merge(sketch);
            write_registers(&mut session, row.id, &registers).await?;
        }
    }
    session.commit().await
}

/// Removes a counter or a batch of items. Returns `true` if there is more to remove.
async fn remove(database: &Database, counter: &UniqueKey) -> Result<bool, Failure> {
    let mut session = database.begin().await?;
    let Some(row) = lock_row(&mut session, database.dialect(), &counter.to_string()).await? else {
        session.roll_back().await?;
        return Ok(false);
    };
    let text =
        database.dialect().delete_some("access_unique_item", "counter, item", "counter = ?", MAX_DELETED);
    let removed = session.execute(&text, &[Value::Int(row.id)]).await?;
    let more = removed >= MAX_DELETED.unsigned_abs();
    match more {
        true => write_items(&mut session, row.id, row.items.saturating_sub_unsigned(removed)).await?,
        false => delete(&mut session, row.id).await?,
    }
    session.commit().await?;
    Ok(more)
}

const COLUMNS: &str = "id, items, registers";
const OF_NAME: &str = "FROM access_unique WHERE name = ?";

/// Locks the row of a counter until the end of the transaction, if it exists.
async fn lock_row(session: &mut Session, dialect: &Dialect, name: &str) -> Result<Option<Counter>, Failure> {
    let text = format!("SELECT {COLUMNS} {OF_NAME}{}", dialect.for_update);
    let rows = session.fetch(&text, &[Value::Text(name)]).await?;
    rows.first().map(|row| parse_row(row, name)).transpose()
}

async fn lock_or_create_row(
    session: &mut Session,
    dialect: &Dialect,
    name: &str,
) -> Result<Counter, Failure> {
    if let Some(row) = lock_row(session, dialect, name).await? {
        return Ok(row);
    }
    let text = dialect.insert_new("access_unique (name, items)", "VALUES (?, 0)");
    session.execute(&text, &[Value::Text(name)]).await?;
    // The row might be created by a concurrent transaction, and even be deleted by a third.
    let row = lock_row(session, dialect, name).await?;
    row.ok_or(Failure::Database(Class::Busy, SqlError::RowNotFound))
}

fn parse_row(row: &crate::sql::driver::Row, name: &str) -> Result<Counter, Failure> {
    let registers = row.optional_bytes(2)?.map(|bytes| Sketch::from_redis(&bytes));
    let registers =
        registers.transpose().map_err(|error| Failure::Malformed(malformed(name).caused_by(error)))?;
    Ok(Counter { id: row.int(0)?, items: row.int(1)?, registers })
}

/// Adds items to a set and returns the number of new items.
async fn insert(
    session: &mut Session,
    dialect: &Dialect,
    id: i64,
    items: &[Vec<u8>],
) -> Result<u64, Failure> {
    if items.is_empty() {
        return Ok(0);
    }
    let rows = format!("VALUES (?, ?){}", ", (?, ?)".repeat(items.len() - 1));
    let text = dialect.insert_new("access_unique_item (counter, item)", &rows);
    let values: Vec<_> = items.iter().flat_map(|item| [Value::Int(id), Value::Bytes(item)]).collect();
    session.execute(&text, &values).await
}

/// Converts the items of a counter into registers and merges these with `sketch`.
async fn convert(session: &mut Session, id: i64, mut sketch: Sketch) -> Result<(), Failure> {
    let id_of = [Value::Int(id)];
    for row in session.fetch("SELECT item FROM access_unique_item WHERE counter = ?", &id_of).await? {
        sketch.insert_element(&row.bytes(0)?);
    }
    session.execute("DELETE FROM access_unique_item WHERE counter = ?", &id_of).await?;
    write_registers(session, id, &sketch).await
}

async fn write_registers(session: &mut Session, id: i64, sketch: &Sketch) -> Result<(), Failure> {
    let text = "UPDATE access_unique SET items = 0, registers = ? WHERE id = ?";
    let registers = sketch.to_redis_short();
    session.execute(text, &[Value::Bytes(&registers), Value::Int(id)]).await.map(drop)
}

async fn write_items(session: &mut Session, id: i64, items: i64) -> Result<(), Failure> {
    let text = "UPDATE access_unique SET items = ? WHERE id = ?";
    session.execute(text, &[Value::Int(items), Value::Int(id)]).await.map(drop)
}

async fn delete(session: &mut Session, id: i64) -> Result<(), Failure> {
    session.execute("DELETE FROM access_unique WHERE id = ?", &[Value::Int(id)]).await.map(drop)
}

fn empty(kind: UniqueKind) -> Contents {
    match kind {
        UniqueKind::Set | UniqueKind::Adaptive(_) => Contents::Items(HashSet::new()),
        UniqueKind::Sketch => Contents::Registers(Sketch::new()),
    }
}

fn malformed(name: &str) -> Error {
    Error::new(ErrorKind::Malformed { key: format!("access_unique {name}") })
}
