//! The store that the hits in a file belong to: the store kind, which is known from the start, and the ids of
//! the stores used by the process, with the time of the latest use.

use sqlx::{Connection, Row, SqliteConnection};

use crate::family::store_id::StoreId;
use crate::time::Timestamp;
use crate::visits::store::identity::{StoreRecord, StoreUse, follows};

/// Statements to create the tables of the origin, which don't exist in files of older versions.
pub(super) const CREATE: [&str; 2] = [
    "CREATE TABLE origin (kind TEXT NOT NULL) STRICT",
    "CREATE TABLE store (id BLOB PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID",
];

/// The store that the hits in a file belong to, if known.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    kind: String,
    seen: Vec<StoreUse>,
}

impl Origin {
    /// Returns the reason if the file doesn't belong to a store of this kind.
    pub(crate) fn rejects_kind(&self, kind: &str) -> Option<String> {
        let is_other = !self.kind.is_empty() && !kind.is_empty() && self.kind != kind;
        is_other.then(|| format!("the hits are for another store ({}), but this store is {kind}", self.kind))
    }

    /// Returns the reason if the file doesn't belong to this store. If the store was created after the latest
    /// use of the stores in the file, it counts as the replacement, because those stores could have lost all
    /// data.
    pub(crate) fn rejects(&self, record: &StoreRecord) -> Option<String> {
        let last = self.seen.iter().max_by_key(|seen| seen.at)?;
        (!follows(record, &self.seen)).then(|| {
            format!(
                "the hits are for store {}, which was still in use after this store ({}) was created",
                last.id, record.id
            )
        })
    }
}

/// Writes the store kind to a file.
pub(super) async fn declare(connection: &mut SqliteConnection, kind: &str) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    sqlx::query("DELETE FROM origin").execute(&mut *transaction).await?;
    sqlx::query("INSERT INTO origin VALUES (?)").bind(kind).execute(&mut *transaction).await?;
    transaction.commit().await
}

/// Records in a file that a store was used.
pub(super) async fn note(connection: &mut SqliteConnection, seen: StoreUse) -> Result<(), sqlx::Error> {
    let at = i64::try_from(seen.at.as_unix()).unwrap_or(i64::MAX);
    let insert = sqlx::query("INSERT OR REPLACE INTO store VALUES (?, ?)").bind(seen.id.to_bytes().to_vec());
    insert.bind(at).execute(connection).await?;
    Ok(())
}

/// Reads the data written by [`declare`] and [`note`].
pub(super) async fn read(connection: &mut SqliteConnection) -> Result<Origin, sqlx::Error> {
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('origin', 'store')";
    let tables: i64 = sqlx::query_scalar(tables).fetch_one(&mut *connection).await?;
    if tables < 2 {
        return Ok(Origin::default());
    }
    let kind: Option<String> =
        sqlx::query_scalar("SELECT kind FROM origin").fetch_optional(&mut *connection).await?;
    let mut seen = Vec::new();
    for row in sqlx::query("SELECT id, seen FROM store").fetch_all(connection).await? {
        let (id, at): (Vec<u8>, i64) = (row.try_get(0)?, row.try_get(1)?);
        let at = Timestamp::from_unix(at.try_into().unwrap_or_default());
        seen.extend(id.try_into().ok().map(|id| StoreUse { id: StoreId::of(id), at }));
    }
    Ok(Origin { kind: kind.unwrap_or_default(), seen })
}
