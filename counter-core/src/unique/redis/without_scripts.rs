//! `include.lua` as a transaction, for servers that reject scripts.
//!
//! We watch the key and compute the result of the script from the current value. If the key is modified by a
//! different client, the transaction has no effect and the call is retried.

use std::collections::HashSet;

use fred::bytes::Bytes;
use fred::types::Value;

use super::{is_wrong_type, sketch, with_items};
use crate::error::{Error, ErrorKind};
use crate::redis::{Client, Command, Connection, Queue, Transaction};
use crate::sketch::Sketch;
use crate::unique::store::Included;

/// Maximum number of attempts. An attempt only fails because a different one succeeds, so this should never
/// be reached.
const MAX_ATTEMPTS: u32 = 1000;

pub(super) async fn include(
    client: &Client,
    key: &str,
    max: Option<u16>,
    items: &[Vec<u8>],
) -> Result<Included, Error> {
    let server = client.server(key).await?;
    for _ in 0..MAX_ATTEMPTS {
        if let Some(included) = client.learn(attempt(&server, key, max, items).await)? {
            return Ok(included);
        }
    }
    Err(Error::new(ErrorKind::Rejected)
        .caused_by("the counter was modified by other clients on every attempt"))
}

async fn attempt(
    server: &Connection,
    key: &str,
    max: Option<u16>,
    items: &[Vec<u8>],
) -> Result<Option<Included>, Error> {
    let watching = server.watch_in(Queue::Calls, key).await?;
    let kind: String = watching.call("TYPE", vec![key.into()]).await?;
    let read = match max {
        Some(max) if kind != "string" => of_set(&watching, key, max, items).await,
        _ => of_registers(&watching, key, items).await,
    };
    let (included, command) = match read {
        // The set was converted into registers by another client since we read the type.
        Err(error) if is_wrong_type(&error) && max.is_some() && is_counter_type(&kind) => return Ok(None),
        read => read?,
    };
    let Some(errors) = watching.execute(vec![command]).await? else { return Ok(None) };
    match errors.into_iter().flatten().next() {
        Some(message) => Err(Error::new(ErrorKind::Rejected).caused_by(message)),
        None => Ok(Some(included)),
    }
}

/// Returns `true` if an adaptive counter can be of this type.
fn is_counter_type(kind: &str) -> bool {
    ["none", "set", "string"].contains(&kind)
}

async fn of_set(
    watching: &Transaction<'_>,
    key: &str,
    max: u16,
    items: &[Vec<u8>],
) -> Result<(Included, Command), Error> {
    let known: Vec<u64> = watching.call("SMISMEMBER", with_items(key, items)).await?;
    let held: u64 = watching.call("SCARD", vec![key.into()]).await?;
    let new: HashSet<_> = items.iter().zip(known).filter(|(_, known)| *known == 0).collect();
    let new = new.len() as u64;
    if held + new <= u64::from(max) {
        return Ok((Included { new, exact: true }, ("SADD", with_items(key, items))));
    }
    let held: Vec<Bytes> = watching.call("SMEMBERS", vec![key.into()]).await?;
    let mut sketch = Sketch::new();
    for item in held.iter().map(|item| &**item).chain(items.iter().map(Vec::as_slice)) {
        sketch.insert_element(item);
    }
    let value = Value::from(Bytes::from(sketch.to_redis()));
    Ok((Included { new, exact: false }, ("SET", vec![key.into(), value, "KEEPTTL".into()])))
}

async fn of_registers(
    watching: &Transaction<'_>,
    key: &str,
    items: &[Vec<u8>],
) -> Result<(Included, Command), Error> {
    let value: Option<Bytes> = watching.call("GET", vec![key.into()]).await?;
    let mut sketch = value.map_or_else(|| Ok(Sketch::new()), |value| sketch(&value, key))?;
    let new = items.iter().filter(|item| sketch.insert_element(item)).count() as u64;
    Ok((Included { new, exact: false }, ("PFADD", with_items(key, items))))
}
