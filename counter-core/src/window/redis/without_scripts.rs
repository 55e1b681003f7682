//! Window counters with transactions, for servers that reject scripts.
//!
//! `SET … NX EXAT` creates a key and `INCRBY` increments it, both in a single MULTI, so that clients always
//! see the final state and the expiry never changes. Operations that depend on the current value need to
//! watch the key. The server time is read first, so a window that ends in between may be open for a moment
//! longer.

use fred::bytes::Bytes;
use fred::types::Value;

use super::{count_key, rejected};
use crate::error::{Error, ErrorKind};
use crate::redis::{Client, Command, Connection, Prefix, Queue, Transaction, unavailable};
use crate::time::Timestamp;
use crate::window::store::{Acquired, Addition, WindowKey};

/// Maximum number of attempts to count a token while other clients modify the counter.
const TOKEN_ATTEMPTS: usize = 100;

/// Maximum number of watched attempts to add within a limit. An attempt takes five round trips.
const WATCHED_ATTEMPTS: usize = 10;

/// Number of commands per counter.
const COMMANDS: usize = 3;

pub(super) async fn add(
    client: &Client,
    prefix: &Prefix,
    some: &[&Addition],
) -> Result<Vec<Result<u64, Error>>, Error> {
    let names: Vec<_> = some.iter().map(|addition| count_key(prefix, &addition.key)).collect();
    let server = client.server(&names[0]).await?;
    let executed = async {
        let transaction = server.begin_in(Queue::Calls).await?;
        let now = transaction.time().await?;
        let open = some.iter().zip(&names).filter(|(addition, _)| addition.key.check(now).is_ok());
        let commands: Vec<_> = open
            .flat_map(|(addition, name)| {
                increment_commands(name, &addition.amount.to_string(), addition.key.expiry)
            })
            .collect();
        if commands.is_empty() {
            transaction.abandon().await?;
            return Ok((now, Some(Vec::new())));
        }
        Ok((now, transaction.execute_for_integers(commands).await?))
    };
    let (now, replies) = client.learn(executed.await)?;
    let replies = replies.ok_or_else(unwatched)?;
    let mut replies = replies.chunks(COMMANDS);
    let mut counts = Vec::with_capacity(some.len());
    for (addition, name) in some.iter().zip(&names) {
        if let Err(closed) = addition.key.check(now) {
            counts.push(Err(closed));
            continue;
        }
        let replies = replies.next().unwrap_or_default();
        ensure_expiry(&server, name, addition.key.expiry, replies).await;
        counts.push(count(replies));
    }
    Ok(counts)
}

pub(super) async fn add_within(
    client: &Client,
    counter: &str,
    addition: &Addition,
    limit: u64,
) -> Result<Acquired, Error> {
    let server = client.server(counter).await?;
    let mut last = Timestamp::MIN;
    for _ in 0..WATCHED_ATTEMPTS {
        let attempt = async {
            let transaction = server.watch_in(Queue::Calls, counter).await?;
            let now = transaction.time().await?;
            if let Err(closed) = addition.key.check(now) {
                transaction.abandon().await?;
                return Err(closed);
            }
            let count = read(&transaction, counter).await?;
            if count.saturating_add(addition.amount) > limit {
                transaction.abandon().await?;
                return Ok(Err(Acquired { is_added: false, count, fits_after: 1, now }));
            }
            let commands =
                increment_commands(counter, &addition.amount.to_string(), addition.key.expiry).into();
            Ok(Ok((transaction.execute_for_integers(commands).await?, now)))
        };
        match client.learn(attempt.await)? {
            Err(rejected) => return Ok(rejected),
            Ok((Some(replies), now)) => {
                ensure_expiry(&server, counter, addition.key.expiry, &replies).await;
                return Ok(Acquired::added(self::count(&replies)?, now));
            }
            // The counter was modified by a different client.
            Ok((None, now)) => last = now,
        }
    }
    add_or_subtract(client, &server, counter, addition, limit, last).await
}

/// Adds without a watch, and subtracts the amount if the new count exceeds the limit.
///
/// With a large number of clients, a watch may fail forever, although a failure always means that some other
/// client was successful. The count is temporarily too high here: a client that adds more than 1 may be
/// rejected even if the amount fits.
async fn add_or_subtract(
    client: &Client,
    server: &Connection,
    counter: &str,
    addition: &Addition,
    limit: u64,
    now: Timestamp,
) -> Result<Acquired, Error> {
    let Addition { key, amount } = addition;
    let added = change(server, counter, &amount.to_string(), key.expiry).await;
    let count = client.learn(added).and_then(|replies| count(&replies))?;
    if count <= limit {
        return Ok(Acquired::added(count, now));
    }
    // If this fails, the count stays too high, and the window allows less than the limit.
    drop(client.learn(change(server, counter, &format!("-{amount}"), key.expiry).await));
    Ok(Acquired { is_added: false, count: count.saturating_sub(*amount), fits_after: 1, now })
}

async fn change(
    server: &Connection,
    counter: &str,
    amount: &str,
    expiry: Timestamp,
) -> Result<Vec<Result<Option<i64>, String>>, Error> {
    let transaction = server.begin_in(Queue::Calls).await?;
    let replies =
        transaction.execute_for_integers(increment_commands(counter, amount, expiry).into()).await?;
    let replies = replies.ok_or_else(unwatched)?;
    ensure_expiry(server, counter, expiry, &replies).await;
    Ok(replies)
}

pub(super) async fn add_once(
    client: &Client,
    counter: &str,
    tokens: &str,
    key: &WindowKey,
    token: Bytes,
) -> Result<(bool, u64), Error> {
    let server = client.server(counter).await?;
    for _ in 0..TOKEN_ATTEMPTS {
        let attempt = async {
            let transaction = server.watch_in(Queue::Calls, tokens).await?;
            if let Err(closed) = key.check(transaction.time().await?) {
                transaction.abandon().await?;
                return Err(closed);
            }
            let args = vec![tokens.into(), token.clone().into()];
            let known: u64 = transaction.call("SISMEMBER", args.clone()).await?;
            let count = read(&transaction, counter).await?;
            if known == 1 {
                transaction.abandon().await?;
                return Ok(Err(count));
            }
            let token_count: u64 = transaction.call("SCARD", vec![tokens.into()]).await?;
            let mut commands = Vec::from(increment_commands(counter, "1", key.expiry));
            commands.push(("SADD", args));
            // Only set the expiry when the set is created, like for the count. The retention of other
            // instances may be shorter.
            if token_count == 0 {
                commands.push(("EXPIREAT", vec![tokens.into(), key.expiry.to_string().into()]));
            }
            transaction.execute_for_integers(commands).await.map(Ok)
        };
        match client.learn(attempt.await)? {
            Err(count) => return Ok((false, count)),
            Ok(Some(replies)) => {
                ensure_expiry(&server, counter, key.expiry, &replies).await;
                return Ok((true, count(&replies)?));
            }
            Ok(None) => {}
        }
    }
    Err(Error::new(ErrorKind::Rejected)
        .caused_by("the counter was modified by other clients on every attempt"))
}

/// Creates the key if it doesn't exist, increments it, and reads the TTL.
fn increment_commands(name: &str, amount: &str, expiry: Timestamp) -> [Command; COMMANDS] {
    let expiry = expiry.to_string();
    let args = |args: &[&str]| args.iter().copied().map(Value::from).collect();
    [
        ("SET", args(&[name, "0", "NX", "EXAT", &expiry])),
        ("INCRBY", args(&[name, amount])),
        ("TTL", args(&[name])),
    ]
}

/// Parses the response to `INCRBY`.
fn count(replies: &[Result<Option<i64>, String>]) -> Result<u64, Error> {
    match replies.get(1) {
        Some(Ok(Some(count))) => {
            u64::try_from(*count).map_err(|_| rejected("the count is negative".to_owned()))
        }
        Some(Err(message)) => Err(rejected(message.clone())),
        _ => Err(unavailable("the reply to INCRBY is missing")),
    }
}

/// Sets the expiry of an incremented key that doesn't have an expiry. If the window has already ended on the
/// server clock, the key created by `SET` expires immediately, and `INCRBY` will then create a persistent
/// key. Keys that were not incremented belong to other programs and must not be changed.
async fn ensure_expiry(
    server: &Connection,
    name: &str,
    expiry: Timestamp,
    replies: &[Result<Option<i64>, String>],
) {
    if let [_, Ok(Some(_)), Ok(Some(-1)), ..] = replies {
        let args = vec![name.into(), expiry.to_string().into()];
        drop(server.call("EXPIREAT", name, args).await);
    }
}

async fn read(transaction: &Transaction<'_>, counter: &str) -> Result<u64, Error> {
    let text: Option<String> = transaction.call("GET", vec![counter.into()]).await?;
    let malformed = |_| Error::new(ErrorKind::Malformed { key: counter.to_owned() });
    text.map_or(Ok(0), |text| text.parse().map_err(malformed))
}

pub(super) fn unwatched() -> Error {
    unavailable("a transaction without watched keys was aborted")
}
