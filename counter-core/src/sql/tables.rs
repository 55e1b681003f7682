//! Table version, creation and upgrades.

use super::failure::{Class, Failure};
use super::pools::Pools;
use super::session::Session;

/// Creates the tables, or upgrades them from an older version.
pub(super) async fn create(pools: &Pools) -> Result<(), Failure> {
    let known = pools.schema.version();
    let [lock, unlock] = pools.dialect.lock;
    let parsed = |found: &str| found.parse::<u32>().ok();
    // This must be outside of the transaction, because PostgreSQL aborts a transaction on error, e.g. if the
    // table is missing.
    let found = version(pools).await?;
    if found.as_deref().is_some_and(|found| parsed(found).is_none_or(|found| found >= known)) {
        return Ok(());
    }
    let mut session = pools.writer().await?;
    session.fetch_text(pools.dialect.begin).await?;
    if !lock.is_empty() {
        session.fetch_text(lock).await?;
    }
    // Another process may have done this already.
    let found = match found {
        Some(_) => Some(read_version(&mut session).await?.as_deref().and_then(parsed).unwrap_or(known)),
        None => None,
    };
    for step in pools.schema.steps_after(found) {
        session.fetch_text(step).await?;
    }
    if !unlock.is_empty() {
        session.fetch_text(unlock).await?;
    }
    session.commit().await
}

/// Reads the stored version, or `None` if the tables do not exist.
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
