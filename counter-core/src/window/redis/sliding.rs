//! Sliding windows: the parts of a block are counted in a hash, so a call needs two keys.

use std::ops::Range;

use fred::types::Value;
use futures_util::future::TryFutureExt;

use super::without_scripts::unwatched;
use super::{RedisWindows, closed, count_key, instants, rejected};
use crate::error::{Error, ErrorKind};
use crate::redis::{Call, Command, Connection, Queue, Transaction, unavailable};
use crate::time::Timestamp;
use crate::window::store::{Acquired, Addition, Earlier, WindowKey};

/// A part of a sliding window.
struct Part {
    /// Name of the block that contains the part.
    block: String,
    /// Name of the previous block.
    previous: String,
    index: u32,
    /// Number of parts in a block.
    len: u32,
    /// The addition, with the expiry of the block.
    addition: Addition,
}

pub(super) async fn add_within(
    store: &RedisWindows,
    addition: &Addition,
    earlier: Earlier<'_>,
    limit: u64,
) -> Result<Acquired, Error> {
    let prefix = store.prefix(&addition.key);
    let Earlier { len, index, key } = earlier;
    let start = |key: WindowKey| {
        let start = key.start.minus(u64::from(index) * u64::from(key.width));
        WindowKey { start, ..key }
    };
    let block = start(addition.key.clone());
    // The parts of a block are used until the end of the next block.
    let expiry = block.start.plus(2 * u64::from(len) * u64::from(block.width));
    let part = &Part {
        block: count_key(prefix, &block),
        previous: count_key(prefix, &start(key(len))),
        index,
        len,
        addition: Addition { key: WindowKey { expiry, ..block }, ..*addition },
    };
    let by_script = async {
        let mut call = Call::new([&prefix.scratch, &part.block, &part.previous]);
        call.number(addition.amount);
        instants(&mut call, &part.addition.key);
        call.number(limit);
        call.number(index);
        call.number(len);
        store.client.run(&store.sliding, call).await
    };
    let without_scripts = without_scripts(store, part, limit);
    let without_scripts = without_scripts.map_ok(|Acquired { is_added, count, fits_after, now }| {
        (u64::from(is_added), count, now.as_unix(), fits_after)
    });
    // We evaluate the result here because `scripted` first needs to know that the script ran.
    let (reply, count, now, fits_after) = store.client.scripted(by_script, without_scripts).await?;
    let now = Timestamp::from_unix(now);
    match reply {
        0 | 1 => Ok(Acquired { is_added: reply == 1, count, fits_after, now }),
        _ => Err(closed(now)),
    }
}

/// Adds with a transaction, and subtracts the amount if the sum is over the limit because of other clients.
///
/// The counts of a part must be final when it is over, so the transaction reads the time after the increment,
/// and the amount is also subtracted if the part is over.
async fn without_scripts(store: &RedisWindows, part: &Part, limit: u64) -> Result<Acquired, Error> {
    let (client, Addition { key, amount }) = (&store.client, &part.addition);
    let server = client.server(&part.block).await?;
    let add = async {
        let transaction = server.begin_in(Queue::Calls).await?;
        let now = transaction.time().await?;
        if let Err(closed) = key.check(now) {
            transaction.abandon().await?;
            return Err(closed);
        }
        let mut earlier = read(&transaction, &part.previous, part.index..part.len).await?;
        earlier.extend(read(&transaction, &part.block, 0..part.index + 1).await?);
        let count = earlier.pop().unwrap_or(0);
        if let Err(rejected) = Acquired::check(&earlier, count, *amount, limit, now) {
            transaction.abandon().await?;
            return Ok(Err(rejected));
        }
        let replies = transaction.execute_for_integers(part.increment(&amount.to_string())).await?;
        Ok(Ok((replies.ok_or_else(unwatched)?, earlier)))
    };
    let (replies, earlier) = match client.learn(add.await)? {
        Ok(added) => added,
        Err(rejected) => return Ok(rejected),
    };
    let count = match replies.first() {
        Some(Ok(Some(count))) => u64::try_from(*count).unwrap_or(0).saturating_sub(*amount),
        Some(Err(message)) => return Err(rejected(message.clone())),
        _ => return Err(unavailable("the reply to HINCRBY is missing")),
    };
    let now = match replies.last() {
        Some(Ok(Some(now))) => Timestamp::from_unix(now.unsigned_abs()),
        _ => return Err(unavailable("the reply to TIME is missing")),
    };
    let decided = key.check(now).map(|()| match Acquired::check(&earlier, count, *amount, limit, now) {
        Ok(sum) => Acquired::added(sum + amount, now),
        Err(rejected) => rejected,
    });
    if !decided.as_ref().is_ok_and(|decided| decided.is_added) {
        // If this fails, the count stays too high, and the window allows less than the limit.
        drop(client.learn(part.subtract(&server).await));
    }
    decided
}

impl Part {
    /// Returns the commands to increment the count and to read the time afterwards.
    fn increment(&self, amount: &str) -> Vec<Command> {
        let (block, index): (Value, Value) = ((&*self.block).into(), self.index.to_string().into());
        let expiry = self.addition.key.expiry.to_string().into();
        vec![
            ("HINCRBY", vec![block.clone(), index, amount.into()]),
            ("EXPIREAT", vec![block, expiry]),
            ("TIME", Vec::new()),
        ]
    }

    async fn subtract(&self, server: &Connection) -> Result<(), Error> {
        let transaction = server.begin_in(Queue::Calls).await?;
        let commands = self.increment(&format!("-{}", self.addition.amount));
        transaction.execute(commands).await?.map(drop).ok_or_else(unwatched)
    }
}

/// Reads the counts of some parts of a block.
async fn read(transaction: &Transaction<'_>, block: &str, parts: Range<u32>) -> Result<Vec<u64>, Error> {
    let mut args = vec![block.into()];
    args.extend(parts.map(|index| Value::from(index.to_string())));
    let texts: Vec<Option<String>> = transaction.call("HMGET", args).await?;
    let malformed = |_| Error::new(ErrorKind::Malformed { key: block.to_owned() });
    texts.into_iter().map(|text| text.map_or(Ok(0), |text| text.parse().map_err(malformed))).collect()
}
