//! The same promises by transactions, for servers that refuse scripts.
//!
//! They cost two exchanges more for a batch, and each bucket three commands instead of one. What other
//! programs of the layout wrote is not taken under the cleaner's care here, and which keys refused a
//! batch is lost with the answer, if that is lost.

use std::collections::BTreeMap;

use fred::bytes::Bytes;
use fred::types::Value;

use super::Shared;
use super::apply::{decode, encode_refusals};
use super::connection::{Command, Connection, says, unavailable};
use super::keys::Keys;
use crate::batch::{Batch, Part, Rejection, Verdict};
use crate::store::REMEMBERED;
use crate::{Bucket, Cleaned, DropReason, Error, ErrorKind, Precision, Precisions, Shard, Timestamp};

/// Counters that are cleaned in one call.
const MEMBERS: usize = 20;

pub(super) async fn apply(shared: &Shared, batch: &Batch) -> Result<Verdict, Error> {
    let keys = shared.keys(batch.shard);
    let fence = keys.fence(batch.fence.writer);
    let server = shared.route.server(&fence).await?;
    shared.route.learn(apply_at(&server, keys, &fence, batch).await)
}

async fn apply_at(server: &Connection, keys: &Keys, fence: &str, batch: &Batch) -> Result<Verdict, Error> {
    let malformed = || Error::new(ErrorKind::Malformed { key: fence.to_owned() });
    let transaction = server.watch(fence).await?;
    let stored: Option<String> = transaction.call("GET", words([fence])).await?;
    let stored = stored.as_deref().unwrap_or("0");
    let (last, refused) = stored.split_once(' ').unwrap_or((stored, ""));
    let last: u64 = last.parse().map_err(|_| malformed())?;
    let sequence = batch.fence.sequence;
    if last >= sequence {
        transaction.abandon().await?;
        let refused = if last == sequence { refused } else { "" };
        return decode(refused).map(Verdict::Applied).ok_or_else(malformed);
    }
    if last < batch.fence.after {
        transaction.abandon().await?;
        return Ok(Verdict::Gap { last });
    }
    let note = |text: String| words([fence, &text, "EX", &REMEMBERED.as_secs().to_string()]);
    // Whoever sent this batch before and was given up meanwhile has changed the fence, if he still came
    // through, and then nothing is done here.
    let mut commands = vec![(Part::Index, ("SET", note(sequence.to_string())))];
    counts(keys, batch, &mut commands);
    visitors(keys, batch, &mut commands);
    let (parts, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
    let answers = transaction.execute(commands).await?;
    let answers = answers.ok_or_else(|| unavailable("another attempt with the same batch was under way"))?;
    let mut refused = BTreeMap::new();
    for (part, answer) in parts.into_iter().zip(answers) {
        if let Some(words) = answer {
            refused.insert(part, reason(&words));
        }
    }
    let refused: Vec<_> = refused.into_iter().map(|(part, reason)| Rejection { part, reason }).collect();
    if !refused.is_empty() {
        let text = format!("{sequence} {}", encode_refusals(&refused));
        // Only for somebody who has to ask again.
        drop(server.call::<Value>("SET", fence, note(text)).await);
    }
    Ok(Verdict::Applied(refused))
}

fn counts(keys: &Keys, batch: &Batch, commands: &mut Vec<(Part, Command)>) {
    for (index, cell) in batch.cells.iter().enumerate() {
        for (bucket, retention) in batch.buckets(cell) {
            let Bucket { precision, start } = bucket;
            let (key, member) =
                (keys.count(precision, &cell.counter), format!("{precision}:{}", cell.counter));
            let (start, count) = (start.to_string(), cell.count.to_string());
            let expiry = retention.expiry(bucket.start).to_string();
            commands.push((Part::Cell(index), ("HINCRBY", words([&key, &start, &count]))));
            commands.push((Part::Index, ("ZADD", words([&keys.known, "0", &member]))));
            commands.push((Part::Index, ("ZADD", words([&keys.due, "LT", &expiry, &member]))));
        }
        let total = words([&keys.total, &cell.counter, &cell.count.to_string()]);
        commands.push((Part::Index, ("HINCRBY", total)));
    }
}

fn visitors(keys: &Keys, batch: &Batch, commands: &mut Vec<(Part, Command)>) {
    for (index, cell) in batch.sketches.iter().enumerate() {
        let mut push = |name, words| commands.push((Part::Visitors(index), (name, words)));
        for (bucket, retention) in batch.visitor_buckets(cell) {
            let key = keys.unique(&cell.counter, bucket);
            if cell.travels_dense() {
                push("SET", vec![(&keys.scratch).into(), Bytes::from(cell.raised.to_redis()).into()]);
                push("PFMERGE", words([&key, &keys.scratch]));
                push("DEL", words([&keys.scratch]));
            } else {
                let elements = cell.raised.registers().map(|register| register.element());
                let elements = elements.map(|element| Bytes::copy_from_slice(&element).into());
                push("PFADD", [Value::from(&key)].into_iter().chain(elements).collect());
            }
            push("EXPIREAT", words([&key, &retention.expiry(bucket.start).to_string()]));
        }
    }
}

fn reason(refusal: &str) -> DropReason {
    if refusal.contains("WRONGTYPE") {
        DropReason::WrongType
    } else if refusal.contains("not an integer") {
        DropReason::NotANumber
    } else if refusal.contains("overflow") {
        DropReason::OutOfRange
    } else {
        DropReason::Other
    }
}

pub(super) async fn clean(
    shared: &Shared,
    shard: Shard,
    now: Timestamp,
    kept: &Precisions,
) -> Result<Cleaned, Error> {
    let keys = shared.keys(shard);
    let bounds = [&keys.due, "-inf", &now.to_string(), "LIMIT", "0", &MEMBERS.to_string()];
    let due: Vec<String> = shared.route.call("ZRANGEBYSCORE", &keys.due, words(bounds)).await?;
    let mut cleaned = Cleaned { more: due.len() == MEMBERS, ..Cleaned::default() };
    let server = shared.route.server(&keys.due).await?;
    for member in &due {
        shared.route.learn(clean_member(&server, keys, member, now, kept, &mut cleaned).await)?;
    }
    Ok(cleaned)
}

async fn clean_member(
    server: &Connection,
    keys: &Keys,
    member: &str,
    now: Timestamp,
    kept: &Precisions,
    cleaned: &mut Cleaned,
) -> Result<(), Error> {
    let key = format!("{}{member}", keys.counts());
    let not_ours =
        async || server.call::<Value>("ZREM", &keys.due, words([&keys.due, member])).await.map(drop);
    let precision = member.split_once(':').and_then(|(precision, _)| precision.parse::<Precision>().ok());
    let Some(precision) = precision else {
        return not_ours().await;
    };
    let transaction = server.watch(&key).await?;
    let fields: Vec<String> = match transaction.call("HKEYS", words([&key])).await {
        Err(error) if says(&error, "WRONGTYPE") => return not_ours().await,
        fields => fields?,
    };
    let retention = kept.retention_or_default(precision);
    let oldest = retention.oldest(now);
    let start = |field: &String| field.parse().map(Timestamp::from_unix).ok();
    let (doomed, left): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|field| start(field).is_some_and(|start| start < oldest));
    let mut commands = Vec::new();
    if !doomed.is_empty() {
        let fields = doomed.iter().map(String::as_str);
        commands.push(("HDEL", [&*key].into_iter().chain(fields).map(Value::from).collect()));
    }
    if left.is_empty() {
        commands.push(("ZREM", words([&keys.known, member])));
        commands.push(("ZREM", words([&keys.due, member])));
    } else {
        let next = retention.expiry(left.iter().filter_map(start).min().unwrap_or(oldest));
        commands.push(("ZADD", words([&keys.due, &next.to_string(), member])));
    }
    // Whoever wrote to it meanwhile has it cleaned at the next pass.
    if transaction.execute(commands).await?.is_some() {
        cleaned.samples += doomed.len() as u64;
        cleaned.counters += u64::from(left.is_empty());
    }
    Ok(())
}

fn words<const N: usize>(words: [&str; N]) -> Vec<Value> {
    words.map(Value::from).to_vec()
}
