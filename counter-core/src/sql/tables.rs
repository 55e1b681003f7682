//! The tables: their version, how they are created, and how those of an older version are upgraded.

use super::pools::Pools;
use super::schema::VERSION;
use super::{Class, Failure, Session};

/// Creates the tables, or upgrades those of an older version.
pub(super) async fn create(pools: &Pools) -> Result<(), Failure> {
    let (steps, [lock, unlock]) = pools.schema();
    let parsed = |found: &str| found.parse::<u32>().ok();
    // Outside of the transaction, in which PostgreSQL would not go on after the error of a missing table.
    let found = version(pools).await?;
    if found.as_deref().is_some_and(|found| parsed(found).is_none_or(|found| found >= VERSION)) {
        return Ok(());
    }
    let mut session = pools.writer().await?;
    session.execute_text(pools.dialect().begin).await?;
    if !lock.is_empty() {
        session.execute_text(lock).await?;
    }
    // Another process may have been first.
    let found = match found {
        Some(_) => read_version(&mut session).await?.as_deref().and_then(parsed).unwrap_or(VERSION),
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

/// Reads the entry of the version; `None` if there are no tables.
pub(super) async fn version(pools: &Pools) -> Result<Option<String>, Failure> {
    let mut session = pools.reader().await?;
    let version = read_version(&mut session).await?;
    session.end();
    Ok(version)
}

async fn read_version(session: &mut Session) -> Result<Option<String>, Failure> {
    match session.fetch("SELECT value FROM access_meta WHERE name = 'version'", &[]).await {
        Err(failure) if failure.class() == Some(Class::NoTable) => Ok(None),
        Err(failure) => Err(failure),
        Ok(rows) => rows.first().map(|row| row.text(0)).transpose(),
    }
}
