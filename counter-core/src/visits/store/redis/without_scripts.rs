//! Visits via transactions, with the same guarantees, for servers that don't permit scripts.
//!
//! A batch takes five more round trips, and each bucket takes three commands instead of one. There are four
//! differences to the scripts:
//!
//! - If a batch is undone, new buckets, lifetimes and fences stay, with the value 0.
//! - Counters written by other programs are not adopted by the cleaner.
//! - If the reply is lost, the list of keys that rejected the batch is lost as well.
//! - Lifetimes include hits that were rejected by all keys.

use std::collections::BTreeMap;

use fred::bytes::Bytes;
use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use super::writers::MARK;
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::log::unwind::emit;
use crate::redis::{Command, Connection, Transaction, args, has_code, unavailable, with_retries};
use crate::sketch::Sketch;
use crate::time::{Bucket, Precision, Precisions, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::ledger::DropReason;
use crate::visits::store::batch::{
    Adds, ApplyOutcome, Batch, Cell, MAX_FUTURE_SECONDS, Part, Remark, travels_dense,
};
use crate::visits::store::fence::{FenceKind, StoredFence, Witness};
use crate::visits::store::remarks::decode;
use crate::visits::store::value as stored;
use crate::visits::store::write::Cleaned;

/// Maximum number of counters to clean in a call.
const MAX_MEMBERS: usize = 20;
/// Maximum number of sources to remove in a call.
const MAX_SOURCES: usize = 20;
/// The value of a missing fence.
const NO_FENCE: &str = "0";

pub(crate) async fn apply(store: &RedisVisits, batch: &Batch) -> Result<ApplyOutcome, Error> {
    let keys = store.keys(batch.shard);
    let fence = keys.fence(batch.fence);
    let server = store.client.server(&fence).await?;
    store.client.learn(apply_at(store, &server, keys, &fence, batch).await)
}

async fn apply_at(
    store: &RedisVisits,
    server: &Connection,
    keys: &Keys,
    fence: &str,
    batch: &Batch,
) -> Result<ApplyOutcome, Error> {
    let transaction = server.watch(fence).await?;
    // We need to do this before reading the fence. Otherwise, a peer with an invalid reply might be mistaken
    // for a server with no fence.
    let sent = Timestamp::now();
    let time = transaction.time().await?;
    store.skew.measure(sent, time, Timestamp::now());
    let stored = text(&transaction, "GET", args([fence])).await?.unwrap_or_else(|| NO_FENCE.to_owned());
    // If the server used to permit scripts, the fence can be followed by remarks.
    let (found, remarks) = stored.split_once(' ').unwrap_or((&stored, ""));
    let retained: StoredFence = found.parse().unwrap_or_default();
    let writer = batch.fence.writer.to_string();
    let (mut found, mut copy) = (retained, None);
    if batch.fence.is_source() {
        copy = text(&transaction, "HGET", args([&keys.sources, &writer])).await?;
        let position = copy.as_ref().and_then(|copy| copy.parse().ok());
        found.sequence = found.sequence.max(position.unwrap_or(0));
    }
    let remarks = || {
        Some(remarks)
            .filter(|_| found == retained)
            .and_then(|remarks| decode(remarks, batch))
            .unwrap_or_default()
    };
    if let Some(outcome) = batch.fence.outcome(found, remarks) {
        transaction.abandon().await?;
        return Ok(outcome);
    }
    if let Some(witness) = batch.witness.as_ref().filter(|_| batch.fence.is_opening())
        && !witness.has_same_state(&read_witness(&transaction, keys, &writer).await?)
    {
        transaction.abandon().await?;
        return Ok(ApplyOutcome::SequenceGap { found: StoredFence::default() });
    }
    // If an abandoned attempt to send this batch has been applied after all, the fence has changed, and this
    // will do nothing.
    let next = batch.fence.applied_to(found).to_string();
    let attempt = Attempt { keys, fence, batch, time, stored, copy, next };
    let (parts, commands): (Vec<_>, Vec<_>) = attempt.commands().into_iter().unzip();
    let replies = transaction.execute_for_integers(commands).await?;
    let replies = replies.ok_or_else(|| unavailable("another attempt to send this batch was in progress"))?;
    let mut errors = replies.iter().filter_map(|reply| reply.as_ref().err());
    if let Some(refusal) = errors.find(|message| reason(message).is_none()) {
        // The permissions have changed since the commands were queued.
        let may_repeat = |error: &Error| *error.kind() == ErrorKind::Unavailable;
        match with_retries(may_repeat, || attempt.undo(server, &replies)).await {
            Ok(()) => return Err(Error::new(ErrorKind::Rejected).caused_by(refusal.clone())),
            Err(error) => {
                emit(|| {
                    tracing::error!(?error, refusal, "a batch that was refused in part cannot be undone");
                });
            }
        }
    }
    Ok(ApplyOutcome::Applied(remarks_of(batch, max_start(time), parts.into_iter().zip(replies))))
}

/// An attempt to apply a batch in a transaction.
struct Attempt<'a> {
    keys: &'a Keys,
    fence: &'a str,
    batch: &'a Batch,
    time: Timestamp,
    /// The value of the fence before the batch.
    stored: String,
    /// The copy in the list of sources before the batch.
    copy: Option<String>,
    /// The value of the fence after the batch.
    next: String,
}

impl Attempt<'_> {
    /// Returns the commands. The first one changes the fence.
    fn commands(&self) -> Vec<(Target, Command)> {
        let Self { keys, fence, batch, time, next, .. } = self;
        let mut commands = vec![(Target::Index, ("SET", args([fence, next])))];
        marks(keys, batch, next, *time, &mut commands);
        let max_start = max_start(*time);
        for (index, cell) in batch.cells.iter().enumerate().filter(|(_, cell)| cell.start <= max_start) {
            let mut push =
                |target: fn(usize) -> Target, name, args| commands.push((target(index), (name, args)));
            match &cell.value {
                stored::Value::Count(count) => add_count(keys, batch, cell, *count, &mut push),
                stored::Value::Visitors(raised) => add_visitors(keys, batch, cell, raised, &mut push),
                stored::Value::Distribution(bins) => add_bins(keys, batch, cell, bins, &mut push),
            }
        }
        commands
    }

    /// Undoes the commands that were executed, given all replies. Visitors are not removed, because they can't be
    /// counted twice.
    async fn undo(&self, server: &Connection, replies: &[Result<Option<i64>, String>]) -> Result<(), Error> {
        let Self { fence, stored, next, .. } = self;
        let transaction = server.watch(fence).await?;
        let found = text(&transaction, "GET", args([fence])).await?.unwrap_or_else(|| NO_FENCE.to_owned());
        let is_fence_set = replies.first().is_some_and(Result::is_ok);
        if found != *(if is_fence_set { next } else { stored }) {
            transaction.abandon().await?;
            // The reply of an earlier attempt to undo it was lost.
            if is_fence_set && found == *stored {
                return Ok(());
            }
            return Err(unavailable("another attempt to send this batch was in progress"));
        }
        let executed = self.commands().into_iter().zip(replies).filter(|(_, reply)| reply.is_ok());
        let undoing = executed.filter_map(|((_, command), _)| self.opposite(command)).collect();
        match transaction.execute(undoing).await?.map(|errors| errors.into_iter().flatten().next()) {
            Some(None) => Ok(()),
            Some(Some(message)) => Err(Error::new(ErrorKind::Rejected).caused_by(message)),
            None => Err(unavailable("another attempt to send this batch was in progress")),
        }
    }

    /// Returns the command that undoes a command, if it is needed.
    fn opposite(&self, (name, mut arguments): Command) -> Option<Command> {
        let last = arguments.pop()?;
        match name {
            "SET" if arguments == args([self.fence]) => {
                arguments.push((&self.stored).into());
                Some((name, arguments))
            }
            // The position of a source.
            "HSET" => {
                let copy = self.copy.as_ref().map(Value::from);
                let name = if copy.is_some() { name } else { "HDEL" };
                arguments.extend(copy);
                Some((name, arguments))
            }
            "HINCRBY" => {
                arguments.push(format!("-{}", last.as_str()?).into());
                Some((name, arguments))
            }
            _ => None,
        }
    }
}

/// Returns the latest start that is not too far ahead of the store clock.
const fn max_start(time: Timestamp) -> Timestamp {
    time.plus(MAX_FUTURE_SECONDS)
}

/// Reads a string. Returns `None` if the key is missing or has a different type.
async fn text(
    transaction: &Transaction<'_>,
    name: &'static str,
    args: Vec<Value>,
) -> Result<Option<String>, Error> {
    let text: Option<Bytes> = match transaction.call(name, args).await {
        Err(error) if has_code(&error, "WRONGTYPE") => None,
        text => text?,
    };
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Adds the commands to store the position of a source, or the marks of the store for a new writer.
fn marks(keys: &Keys, batch: &Batch, next: &str, time: Timestamp, commands: &mut Vec<(Target, Command)>) {
    let writer = batch.fence.writer.to_string();
    if let FenceKind::Source { life } = batch.fence.kind {
        commands.push((Target::Index, ("HSET", args([&*keys.sources, &*writer, next]))));
        commands.push(match life {
            Some(life) => {
                let end = time.plus(life.as_secs()).to_string();
                (Target::Index, ("ZADD", args([&keys.sources_due, &end, &writer])))
            }
            None => (Target::Index, ("ZREM", args([&keys.sources_due, &writer]))),
        });
    } else if batch.fence.is_opening() {
        let mark = WriterId::random().to_string();
        commands.push((Target::Index, ("HSETNX", args([&*keys.total, MARK, &mark]))));
        commands.push((Target::Index, ("HSETNX", args([&*keys.writers, MARK, &mark]))));
        commands.push((Target::Index, ("HSETNX", args([&keys.writers, &writer, ""]))));
    }
}

/// Returns the remarks on a batch, given the reply to each command, i.e. either an integer or an error
/// message.
fn remarks_of(
    batch: &Batch,
    max_start: Timestamp,
    replies: impl Iterator<Item = (Target, Result<Option<i64>, String>)>,
) -> Vec<Remark> {
    let mut rejected = BTreeMap::new();
    let mut remarks = Vec::new();
    for (target, reply) in replies {
        let (part, message) = match (target, reply) {
            (Target::Lifetime(cell), Ok(Some(sum)))
                if u64::try_from(sum).ok() == batch.cells[cell].count() =>
            {
                remarks.push(Remark::NewLifetime { cell });
                continue;
            }
            (_, Ok(_)) => continue,
            (Target::Cell(cell), Err(message)) => (Part::Cell(cell), message),
            (Target::Index | Target::Lifetime(_), Err(message)) => (Part::Index, message),
        };
        rejected.insert(part, (reason(&message).unwrap_or(DropReason::Other), Some(message)));
    }
    let cells = batch.cells.iter().enumerate().filter(|(_, cell)| cell.start > max_start);
    rejected.extend(cells.map(|(index, _)| (Part::Cell(index), (DropReason::Ahead, None))));
    remarks.extend(rejected.into_iter().map(|(part, (reason, message))| Remark::Rejected {
        part,
        reason,
        message,
    }));
    remarks
}

/// Reads the witness on the server of this transaction.
async fn read_witness(transaction: &Transaction<'_>, keys: &Keys, writer: &str) -> Result<Witness, Error> {
    let mark = async |key: &str, field: &str| -> Result<Option<String>, Error> {
        match transaction.call("HGET", args([key, field])).await {
            Err(error) if has_code(&error, "WRONGTYPE") => Ok(None),
            mark => mark,
        }
    };
    let listed = mark(&keys.writers, writer).await?.is_some();
    let (data, writers) = (mark(&keys.total, MARK).await?, mark(&keys.writers, MARK).await?);
    Ok(Witness { data, writers, listed, evicts: false })
}

/// The part of the batch that a command belongs to, by index.
#[derive(Clone, Copy)]
enum Target {
    Cell(usize),
    Lifetime(usize),
    Index,
}

/// Adds a command for a target, given the index of the cell.
type Push<'a> = &'a mut dyn FnMut(fn(usize) -> Target, &'static str, Vec<Value>);

fn add_count(keys: &Keys, batch: &Batch, cell: &Cell, count: u64, push: Push<'_>) {
    let (counter, count) = (&cell.counter, count.to_string());
    for (Bucket { precision, start }, retention) in batch.buckets(cell) {
        let (key, member) = (keys.count(precision, counter), format!("{precision}:{counter}"));
        let expiry = retention.expiry(start).to_string();
        push(Target::Cell, "HINCRBY", args([&key, &start.to_string(), &count]));
        push(|_| Target::Index, "ZADD", args([&keys.known, "0", &member]));
        push(|_| Target::Index, "ZADD", args([&keys.due, "LT", &expiry, &member]));
    }
    // The lifetime of a label value is removed with its last sample, so it must not be created with no sample.
    let is_value = counter.label().is_some();
    if batch.adds != Adds::Samples && !(is_value && batch.is_expired(cell)) {
        push(Target::Lifetime, "HINCRBY", args([&keys.total, counter, &count]));
    }
}

fn add_visitors(keys: &Keys, batch: &Batch, cell: &Cell, raised: &Sketch, push: Push<'_>) {
    for (bucket, retention) in batch.buckets(cell) {
        let key = keys.unique(&cell.counter, bucket);
        if travels_dense(raised) {
            let dense = Bytes::from(raised.to_redis()).into();
            push(Target::Cell, "SET", vec![(&keys.scratch).into(), dense]);
            push(Target::Cell, "PFMERGE", args([&key, &keys.scratch]));
            push(Target::Cell, "DEL", args([&keys.scratch]));
        } else {
            let elements = raised.registers().map(|register| register.element());
            let elements = elements.map(|element| Bytes::copy_from_slice(&element).into());
            push(Target::Cell, "PFADD", [Value::from(&key)].into_iter().chain(elements).collect());
        }
        push(Target::Cell, "EXPIREAT", args([&key, &retention.removal(bucket.start).to_string()]));
    }
}

fn add_bins(keys: &Keys, batch: &Batch, cell: &Cell, bins: &[(Bin, u64)], push: Push<'_>) {
    for (bucket, retention) in batch.buckets(cell) {
        let key = keys.bins(&cell.counter, bucket);
        for (bin, count) in bins {
            push(Target::Cell, "HINCRBY", args([&*key, &bin.number().to_string(), &count.to_string()]));
        }
        push(Target::Cell, "EXPIREAT", args([&key, &retention.removal(bucket.start).to_string()]));
    }
}

/// Returns the reason for an error that is about the value of a key. Any other error is a refusal, i.e. about this
/// user or server.
fn reason(message: &str) -> Option<DropReason> {
    if message.contains("WRONGTYPE") || message.contains("wrong kind of value") {
        Some(DropReason::WrongType)
    } else if message.contains("INVALIDOBJ") {
        Some(DropReason::Other)
    } else if message.contains("not an integer") {
        Some(DropReason::NotANumber)
    } else if message.contains("overflow") {
        Some(DropReason::OutOfRange)
    } else {
        None
    }
}

pub(crate) async fn clean(
    store: &RedisVisits,
    shard: Shard,
    now: Timestamp,
    retained: &Precisions,
) -> Result<Cleaned, Error> {
    let keys = store.keys(shard);
    // If the clock of an instance is ahead, it must not remove samples that are still retained by other
    // instances.
    let now = now.min(store.client.time(&keys.due).await?);
    let bounds = [&keys.due, "-inf", &now.to_string(), "LIMIT", "0", &MAX_MEMBERS.to_string()];
    let due: Vec<Bytes> = store.client.call("ZRANGEBYSCORE", &keys.due, args(bounds)).await?;
    let mut cleaned = Cleaned { more: due.len() == MAX_MEMBERS, ..Cleaned::default() };
    let server = store.client.server(&keys.due).await?;
    for member in &due {
        let cleaning = async {
            match str::from_utf8(member) {
                Ok(member) => clean_member(&server, keys, member, now, retained, &mut cleaned).await,
                // This can't be the name of a counter.
                Err(_) => {
                    let args = vec![(&keys.due).into(), member.clone().into()];
                    server.call("ZREM", &keys.due, args).await.map(drop)
                }
            }
        };
        store.client.learn(cleaning.await)?;
    }
    let ended = store.client.learn(clean_sources(store, &server, keys).await)?;
    cleaned.more |= ended == MAX_SOURCES;
    Ok(cleaned)
}

/// Removes some sources with an expired life. Returns the number of expired sources that it looked at.
async fn clean_sources(store: &RedisVisits, server: &Connection, keys: &Keys) -> Result<usize, Error> {
    let now = store.client.time(&keys.sources_due).await?.to_string();
    let bounds = [&keys.sources_due, "-inf", &now, "LIMIT", "0", &MAX_SOURCES.to_string()];
    let ended = store.client.call("ZRANGEBYSCORE", &keys.sources_due, args(bounds)).await;
    let ended: Vec<Bytes> = match ended {
        Err(error) if has_code(&error, "WRONGTYPE") => return Ok(0),
        ended => ended?,
    };
    for source in &ended {
        let source = String::from_utf8_lossy(source);
        let fence = keys.source_of(&source);
        // If a batch is committed in the meantime, the fence will change, and we won't remove anything.
        let transaction = server.watch(&fence).await?;
        let end: Option<f64> = transaction.call("ZSCORE", args([&keys.sources_due, &source])).await?;
        if end.is_none_or(|end| now.parse().is_ok_and(|now: f64| end > now)) {
            transaction.abandon().await?;
            continue;
        }
        let commands = vec![
            ("DEL", args([&*fence])),
            ("HDEL", args([&keys.sources, &*source])),
            ("ZREM", args([&keys.sources_due, &*source])),
        ];
        transaction.execute(commands).await?;
    }
    Ok(ended.len())
}

async fn clean_member(
    server: &Connection,
    keys: &Keys,
    member: &str,
    now: Timestamp,
    retained: &Precisions,
    cleaned: &mut Cleaned,
) -> Result<(), Error> {
    let key = format!("{}{member}", keys.counts());
    let remove_from_due = async || server.call("ZREM", &keys.due, args([&keys.due, member])).await.map(drop);
    let precision = member.split_once(':').and_then(|(precision, _)| precision.parse::<Precision>().ok());
    let Some(precision) = precision else {
        return remove_from_due().await;
    };
    let mut transaction = server.watch(&key).await?;
    let fields: Vec<Bytes> = match transaction.call("HKEYS", args([&key])).await {
        Err(error) if has_code(&error, "WRONGTYPE") => return remove_from_due().await,
        fields => fields?,
    };
    let fields: Vec<_> = fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
    let retention = retained.retention_or_default(precision);
    let oldest = retention.oldest(now);
    let start = |field: &String| field.parse().map(Timestamp::from_unix).ok();
    let (expired, remaining): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|field| start(field).is_some_and(|start| start < oldest));
    let mut commands = Vec::new();
    if !expired.is_empty() {
        let fields = expired.iter().map(String::as_str);
        commands.push(("HDEL", [&*key].into_iter().chain(fields).map(Value::from).collect()));
    }
    if remaining.is_empty() {
        commands.push(("ZREM", args([&keys.known, member])));
        commands.push(("ZREM", args([&keys.due, member])));
        if let Some(value) = last_of_value(&mut transaction, keys, precision, member, retained).await? {
            commands.push(("HDEL", args([&*keys.total, value])));
        }
    } else {
        let next = retention.expiry(remaining.iter().filter_map(start).min().unwrap_or(oldest));
        commands.push(("ZADD", args([&keys.due, &next.to_string(), member])));
    }
    // If another client writes to it in the meantime, it will be cleaned in the next pass.
    if transaction.execute(commands).await?.is_some() {
        cleaned.samples += expired.len() as u64;
        cleaned.counters += u64::from(remaining.is_empty());
    }
    Ok(())
}

/// Returns the counter of a member, if it is a label value with no samples in other precisions.
async fn last_of_value<'a>(
    transaction: &mut Transaction<'_>,
    keys: &Keys,
    precision: Precision,
    member: &'a str,
    retained: &Precisions,
) -> Result<Option<&'a str>, Error> {
    let name = member.split_once(':').map(|(_, name)| name);
    let Some(value) = name.filter(|name| name.starts_with(CounterName::LABELS)) else { return Ok(None) };
    for other in retained.iter().map(|retention| retention.precision).filter(|other| *other != precision) {
        let key = format!("{}{other}:{value}", keys.counts());
        transaction.watch(&key).await?;
        if transaction.call::<u64>("EXISTS", args([&key])).await? > 0 {
            return Ok(None);
        }
    }
    Ok(Some(value))
}
