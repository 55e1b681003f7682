use std::fmt;

use super::{Class, Database, Failure, Session};
use crate::Error;

/// The version of the schema that this version of the crate works with.
const VERSION: u32 = 5;

/// An error of a database whose tables are not those that are needed.
#[derive(Debug)]
pub(crate) enum SchemaError {
    /// There are none.
    Missing,
    /// They are of this earlier version.
    Older(u32),
    /// They are of this later version.
    Newer(u32),
    /// The entry of the version is no number.
    Odd,
    /// The database has settings that do not do, for this reason.
    Unfit(String),
    /// It is not known.
    Unknown(Error),
}

/// Checks that the database has the settings that are needed.
pub(crate) async fn check_settings(database: &Database) -> Result<(), SchemaError> {
    let unfit = database.dialect().unfit;
    if unfit.is_empty() {
        return Ok(());
    }
    let reason = database.attempt(|| async {
        let mut session = database.reader().await?;
        let rows = session.fetch(unfit, &[]).await?;
        let reason = rows.first().map(|row| row.text(0)).transpose()?;
        session.end();
        Ok(reason)
    });
    reason.await.map_err(SchemaError::Unknown)?.map_or(Ok(()), |reason| Err(SchemaError::Unfit(reason)))
}

/// Checks that the tables are there and of the right version.
pub(crate) async fn check_tables(database: &Database) -> Result<(), SchemaError> {
    let version = database.attempt(|| async {
        let mut session = database.reader().await?;
        let version = version(&mut session).await?;
        session.end();
        Ok(version)
    });
    match version.await.map_err(SchemaError::Unknown)? {
        None => Err(SchemaError::Missing),
        Some(Some(VERSION)) => Ok(()),
        Some(Some(found)) if found < VERSION => Err(SchemaError::Older(found)),
        Some(Some(found)) => Err(SchemaError::Newer(found)),
        Some(None) => Err(SchemaError::Odd),
    }
}

/// Makes the tables, or brings them from an older version to this one.
pub(crate) async fn create_tables(database: &Database) -> Result<(), SchemaError> {
    database.attempt_for_schema(|| create_once(database)).await.map_err(SchemaError::Unknown)
}

async fn create_once(database: &Database) -> Result<(), Failure> {
    let (steps, [lock, unlock]) = database.schema();
    // Outside of the transaction, in which PostgreSQL would not go on after the error of a missing table.
    let mut session = database.reader().await?;
    let found = version(&mut session).await?;
    session.end();
    if matches!(found, Some(found) if found.is_none_or(|found| found >= VERSION)) {
        return Ok(());
    }
    let mut session = database.begin().await?;
    if !lock.is_empty() {
        session.execute_text(lock).await?;
    }
    // Another process may have been first.
    let found = match found {
        Some(_) => version(&mut session).await?.flatten().unwrap_or(VERSION),
        None => 0,
    };
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
        session.execute_text(step).await?;
    }
    if !unlock.is_empty() {
        session.execute_text(unlock).await?;
    }
    session.commit().await
}

/// Reads the version; `None` where there are no tables.
async fn version(session: &mut Session) -> Result<Option<Option<u32>>, Failure> {
    let rows = session.fetch("SELECT value FROM access_meta WHERE name = 'version'", &[]).await;
    match rows {
        Err(failure) if failure.class() == Some(Class::NoTable) => Ok(None),
        Err(failure) => Err(failure),
        Ok(rows) => match rows.first() {
            Some(row) => Ok(Some(row.text(0)?.parse().ok())),
            None => Ok(None),
        },
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the database has no tables for counters"),
            Self::Older(found) => write!(f, "the tables are of version {found} and not yet of {VERSION}"),
            Self::Newer(found) => write!(
                f,
                "the tables are of version {found}, and this program knows none after {VERSION}: update it"
            ),
            Self::Odd => f.write_str("the tables have no version"),
            Self::Unfit(reason) => f.write_str(reason),
            Self::Unknown(_) => f.write_str("the tables cannot be read"),
        }
    }
}
