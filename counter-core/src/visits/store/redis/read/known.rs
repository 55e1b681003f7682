//! Reads the lists of known counters.

use fred::types::Value;

use super::{Results, by_shard};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::redis::{Group, args, in_item_order, try_join_boxed};
use crate::time::Precision;
use crate::visits::store::reading::{CountedReading, KnownQuery, KnownReading, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::{Junk, wrong_key};
use crate::visits::store::redis::writers::MARK;

/// Maximum number of calls to read a page, if the list contains foreign members.
const MAX_CALLS: usize = 10;
/// Number of members to read in a call, once a foreign member has been found.
const MEMBERS_PER_CALL: usize = 1000;

pub(crate) async fn known(store: &RedisVisits, query: KnownQuery<'_>) -> Result<KnownReading, Error> {
    let pages = store.client.shards().iter().map(|shard| page(store, shard, query));
    let mut all = KnownReading::default();
    for page in try_join_boxed(pages).await? {
        all.counters.extend(page.counters);
        all.unreadable.extend(page.unreadable);
    }
    all.unreadable.iter().for_each(|unreadable| store.logged_keys.log_once(unreadable));
    Ok(all)
}

pub(crate) async fn counted(
    store: &RedisVisits,
    shard: Shard,
    cursor: Option<String>,
) -> Result<CountedReading, Error> {
    let key = &store.keys(shard).total;
    let cursor = cursor.as_deref().unwrap_or("0");
    let call = ("HSCAN", args([key, cursor, "COUNT", &MEMBERS_PER_CALL.to_string()]));
    let mut reading = CountedReading::default();
    let reply = match store.client.call_each(key, vec![call]).await?.pop() {
        Some(Ok(reply)) => reply.into_array(),
        Some(Err(error)) => {
            let unreadable = wrong_key(key, &error);
            store.logged_keys.log_once(&unreadable);
            reading.unreadable.push(unreadable);
            return Ok(reading);
        }
        None => Vec::new(),
    };
    let [next, fields] =
        <[Value; 2]>::try_from(reply).map_err(|_| Unreadable::new(key, "unexpected HSCAN reply"))?;
    reading.next = next.as_string().filter(|next| next != "0");
    let mut junk = Junk::default();
    for field in fields.into_array().chunks(2).filter_map(|pair| pair.first()) {
        match str::from_utf8(field.as_bytes().unwrap_or_default()).map(CounterName::new) {
            Ok(Ok(counter)) => reading.counters.push(counter),
            _ if field.as_bytes() == Some(MARK.as_bytes()) => {}
            _ => junk.add(field, "is not a counter"),
        }
    }
    reading.unreadable.extend(junk.found(key));
    reading.unreadable.iter().for_each(|unreadable| store.logged_keys.log_once(unreadable));
    Ok(reading)
}

pub(crate) async fn contains(
    store: &RedisVisits,
    counters: &[CounterName],
    precisions: &[Precision],
) -> Result<Results<bool>, Error> {
    if precisions.is_empty() {
        return Ok(counters.iter().map(|_| Ok(false)).collect());
    }
    let groups = by_shard(store, counters);
    let reads = groups.iter().map(|group| contained_of(store, group, precisions));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn contained_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precisions: &[Precision],
) -> Result<Results<bool>, Error> {
    let key = &store.keys(group.shard).known;
    let score = |counter: &CounterName, precision| ("ZSCORE", args([key, &format!("{precision}:{counter}")]));
    let members =
        group.items.iter().flat_map(|counter| precisions.iter().map(move |retention| (counter, retention)));
    let calls = members.map(|(counter, precision)| score(counter, precision)).collect();
    let scores = store.client.call_each(key, calls).await?;
    let is_contained =
        |scores: &[Result<Value, Error>]| match scores.iter().find_map(|score| score.as_ref().err()) {
            Some(error) => {
                Err(wrong_key(key, error)).inspect_err(|unreadable| store.logged_keys.log_once(unreadable))
            }
            None => Ok(scores.iter().flatten().any(|score| !score.is_null())),
        };
    Ok(scores.chunks(precisions.len()).map(is_contained).collect())
}

/// The scan position in the list of a precision.
struct Names {
    precision: Precision,
    /// The position of the next member, or `None` if done.
    next: Option<Vec<u8>>,
    found: usize,
}

async fn page(
    store: &RedisVisits,
    shard: Shard,
    KnownQuery { precisions, from, limit, .. }: KnownQuery<'_>,
) -> Result<KnownReading, Error> {
    let key = &store.keys(shard).known;
    let begin = |&precision: &Precision| Names {
        precision,
        next: Some(format!("[{precision}:{from}").into_bytes()),
        found: 0,
    };
    let mut names: Vec<_> = precisions.iter().map(begin).collect();
    let (mut page, mut junk, mut size) = (KnownReading::default(), Junk::default(), limit);
    for round in 0.. {
        let mut open: Vec<_> = names.iter_mut().filter(|names| names.next.is_some()).collect();
        if open.is_empty() {
            break;
        }
        if round == MAX_CALLS {
            return Err(Unreadable::new(key, "most members are not counters").into());
        }
        let call = |names: &&mut Names| {
            let first = Value::from(names.next.as_deref().unwrap_or_default());
            // `;` is the character after `:`, so this range covers everything starting with `{precision}:`.
            let end = Value::from(format!("({};", names.precision));
            let limit = ["LIMIT", "0", &size.to_string()].map(Value::from);
            ("ZRANGEBYLEX", [vec![Value::from(key), first, end], limit.to_vec()].concat())
        };
        let replies = store.client.call_each(key, open.iter().map(call).collect()).await?;
        for (names, reply) in open.iter_mut().zip(replies) {
            let members = match reply {
                Ok(members) => members.into_array(),
                // All precisions are in the same key.
                Err(error) => {
                    page.unreadable.push(wrong_key(key, &error));
                    return Ok(page);
                }
            };
            for member in &members {
                match counter(member) {
                    Some(counter) => {
                        page.counters.push((counter, names.precision));
                        names.found += 1;
                    }
                    None => junk.add(member, "is not a counter"),
                }
            }
            // We need to read on if the page contains foreign members.
            let last = members.last().filter(|_| members.len() == size && names.found < limit);
            names.next = last.and_then(Value::as_bytes).map(|last| [b"(", last].concat());
        }
        size = limit.max(MEMBERS_PER_CALL);
    }
    page.unreadable.extend(junk.found(key));
    Ok(page)
}

/// Parses a member `{precision}:{counter}`.
fn counter(member: &Value) -> Option<CounterName> {
    let (_, name) = std::str::from_utf8(member.as_bytes()?).ok()?.split_once(':')?;
    CounterName::new(name).ok()
}
