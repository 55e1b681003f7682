//! Counters of windows: each a key of its own, which says by itself when it goes.

mod plain;

use std::collections::BTreeMap;

use fred::bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::Value;
use futures_util::future::{join_all, try_join_all};

use super::connection::explain;
use super::keys::Keys;
use super::retry::{it_may_pass, nothing_was_done, retried};
use super::script::{Call, Script};
use super::{RedisStore, Shared};
use crate::store::{Addition, WindowKey, WindowStore};
use crate::{Error, ErrorKind, Shard, Timestamp, VisitorId};

/// Counters that one call adds to, or reads: 1 to 3 ms of the server's time.
const KEYS: usize = 1000;

#[derive(Debug)]
pub(super) struct Scripts {
    add: Script,
    within: Script,
    once: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            add: Script::new(include_str!("window/add.lua")),
            within: Script::new(include_str!("window/within.lua")),
            once: Script::new(include_str!("window/once.lua")),
        }
    }
}

impl WindowStore for RedisStore {
    async fn add(&self, additions: &[Addition]) -> Vec<Result<u64, Error>> {
        let groups = by_shard(&self.0, additions.iter().map(|addition| &addition.key));
        let asked = groups.iter().map(|(shard, places)| {
            let group = places.iter().map(|place| &additions[*place]).collect();
            add_to(&self.0, *shard, group)
        });
        in_order(&groups, join_all(asked).await)
    }

    async fn add_once(&self, key: &WindowKey, token: VisitorId) -> Result<(bool, u64), Error> {
        // A token counts once however often it comes: so this may be tried again whatever happened.
        retried(it_may_pass, || add_once(&self.0, key, token)).await
    }

    async fn add_within(&self, addition: &Addition, limit: u64) -> Result<(bool, u64), Error> {
        retried(nothing_was_done, || add_within(&self.0, addition, limit)).await
    }

    async fn counts(&self, keys: &[WindowKey]) -> Result<Vec<u64>, Error> {
        let groups = by_shard(&self.0, keys.iter());
        let asked = groups.iter().map(|(shard, places)| {
            let group = places.iter().map(|place| &keys[*place]).collect();
            counts_of(&self.0, *shard, group)
        });
        Ok(in_order(&groups, try_join_all(asked).await?))
    }

    async fn time(&self, key: &WindowKey) -> Result<Timestamp, Error> {
        let name = self.0.keys(self.0.shards.of(key.place())).window(key);
        let ask = || self.0.route.call::<Vec<String>>("TIME", &name, Vec::new());
        seconds(&retried(it_may_pass, ask).await?)
    }
}

/// The whole seconds of an answer to `TIME`.
fn seconds(time: &[String]) -> Result<Timestamp, Error> {
    let seconds = time.first().and_then(|seconds| seconds.parse().ok());
    seconds.map(Timestamp::from_unix).ok_or_else(|| refused("the server does not tell the time".to_owned()))
}

async fn add_to(shared: &Shared, shard: Shard, group: Vec<&Addition>) -> Vec<Result<u64, Error>> {
    let keys = shared.keys(shard);
    let mut answers = Vec::with_capacity(group.len());
    for some in group.chunks(KEYS) {
        match retried(nothing_was_done, || add_some(shared, keys, some)).await {
            Ok(some) => answers.extend(some),
            Err(error) => answers.extend(some.iter().map(|_| Err(error.copy()))),
        }
    }
    answers
}

async fn add_some(
    shared: &Shared,
    keys: &Keys,
    some: &[&Addition],
) -> Result<Vec<Result<u64, Error>>, Error> {
    if shared.runs_scripts() {
        let mut call = Call::new([&keys.scratch]);
        for addition in some {
            call.key(&keys.window(&addition.key));
            call.number(addition.amount);
            instants(&mut call, &addition.key);
        }
        let answers: Result<Vec<Value>, _> = shared.windows.add.run(&shared.route, call).await;
        if !shared.refused_a_script(&answers) {
            return Ok(answers?.iter().map(count).collect());
        }
    }
    plain::add(shared, keys, some).await
}

async fn add_within(shared: &Shared, addition: &Addition, limit: u64) -> Result<(bool, u64), Error> {
    let keys = shared.keys(shared.shards.of(addition.key.place()));
    let counter = keys.window(&addition.key);
    if shared.runs_scripts() {
        let mut call = Call::new([&keys.scratch, &counter]);
        call.number(addition.amount);
        instants(&mut call, &addition.key);
        call.number(limit);
        let answer = shared.windows.within.run(&shared.route, call).await;
        if !shared.refused_a_script(&answer) {
            return answer.and_then(decided);
        }
    }
    plain::add_within(shared, &counter, addition, limit).await
}

async fn add_once(shared: &Shared, key: &WindowKey, token: VisitorId) -> Result<(bool, u64), Error> {
    let keys = shared.keys(shared.shards.of(key.place()));
    let (counter, tokens) = (keys.window(key), keys.tokens(key));
    let token = Bytes::copy_from_slice(token.as_bytes());
    if shared.runs_scripts() {
        let mut call = Call::new([&keys.scratch, &counter, &tokens]);
        call.push(token.clone());
        instants(&mut call, key);
        let answer = shared.windows.once.run(&shared.route, call).await;
        if !shared.refused_a_script(&answer) {
            return answer.and_then(decided);
        }
    }
    plain::add_once(shared, &counter, &tokens, key, token).await
}

async fn counts_of(shared: &Shared, shard: Shard, group: Vec<&WindowKey>) -> Result<Vec<u64>, Error> {
    let keys = shared.keys(shard);
    let mut counts = Vec::with_capacity(group.len());
    for some in group.chunks(KEYS) {
        let names: Vec<_> = some.iter().map(|key| keys.window(key)).collect();
        let read = || {
            let words = names.iter().map(Value::from).collect();
            shared.route.call::<Vec<Option<String>>>("MGET", &names[0], words)
        };
        let texts = retried(it_may_pass, read).await?;
        for (text, name) in texts.into_iter().zip(&names) {
            let count = text.map_or(Ok(0), |text| text.parse());
            counts.push(count.map_err(|_| Error::new(ErrorKind::Malformed { key: name.clone() }))?);
        }
    }
    Ok(counts)
}

/// When a key expires, and where the server's clock has to be.
fn instants(call: &mut Call, key: &WindowKey) {
    call.number(key.expiry);
    call.number(key.open.start);
    call.number(key.open.end);
}

/// Whether it was added, and the count; or what the server's clock says, when that closed the window.
fn decided((answer, number): (u64, u64)) -> Result<(bool, u64), Error> {
    match answer {
        0 | 1 => Ok((answer == 1, number)),
        _ => Err(closed(Timestamp::from_unix(number))),
    }
}

/// A count, or why there is none.
fn count(answer: &Value) -> Result<u64, Error> {
    if let Some(count) = answer.as_u64() {
        return Ok(count);
    }
    let words = answer.as_string().unwrap_or_default();
    match words.strip_prefix("CLOSED ").and_then(|now| now.parse().ok()) {
        Some(now) => Err(closed(Timestamp::from_unix(now))),
        None => Err(refused(words)),
    }
}

fn closed(now: Timestamp) -> Error {
    Error::new(ErrorKind::WindowClosed { now })
}

/// What a server says to one command of several: that it did nothing.
fn refused(words: String) -> Error {
    explain(FredError::new(FredKind::Unknown, words)).of_kind(ErrorKind::Refused)
}

/// The places of keys among all that were given, by the part of the store that they are in.
fn by_shard<'a>(shared: &Shared, keys: impl Iterator<Item = &'a WindowKey>) -> BTreeMap<Shard, Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (place, key) in keys.enumerate() {
        groups.entry(shared.shards.of(key.place())).or_default().push(place);
    }
    groups
}

fn in_order<T>(groups: &BTreeMap<Shard, Vec<usize>>, answers: Vec<Vec<T>>) -> Vec<T> {
    let places = groups.values().flatten();
    let mut answers: Vec<_> = places.zip(answers.into_iter().flatten()).collect();
    answers.sort_unstable_by_key(|(place, _)| **place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
