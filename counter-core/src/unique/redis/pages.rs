//! Pages of the counters in a namespace and parts of their items. Pages and parts are read from the
//! responsible server.

use fred::bytes::Bytes;

use super::{RedisUnique, SCAN_COUNT, is_wrong_type, of_key};
use crate::error::Error;
use crate::family::shard::Shard;
use crate::redis::{Prefix, args, convert_reply, is_transient, unavailable, with_retries};
use crate::unique::distinct::Contents;
use crate::unique::store::{UniqueKey, UniqueKind, UniqueList, UniquePart};

/// A server cursor, together with the session in which it is valid.
type Position = Option<(String, String)>;

/// Lists the shards sequentially. This scans all keys of the server, a bounded number per call.
pub(super) async fn list(store: &RedisUnique, cursor: Option<Vec<u8>>) -> Result<UniqueList, Error> {
    let (shards, (index, position)) = (store.client.shards(), shard_and_position(cursor));
    let Some(shard) = shards.iter().nth(index) else { return Ok(UniqueList::default()) };
    let prefix = store.client.prefix(shard);
    let (position, keys) = with_retries(is_transient, || scan(store, prefix, &position)).await?;
    let next = match position {
        Some((session, at)) => Some(format!("{index} {session} {at}").into_bytes()),
        None => (index + 1 < shards.iter().count()).then(|| format!("{}", index + 1).into_bytes()),
    };
    Ok(UniqueList { counters: keys.iter().filter_map(|key| counter(store, shard, key)).collect(), next })
}

/// Returns keys that might be counters, and the next position.
async fn scan(
    store: &RedisUnique,
    prefix: &Prefix,
    position: &Position,
) -> Result<(Position, Vec<Bytes>), Error> {
    let server = store.client.server(&prefix.scratch).await?;
    let session = server.session();
    let scan = args([at(position, &session), "MATCH", &pattern(prefix), "COUNT", SCAN_COUNT]);
    // Unlike commands with a key, `SCAN` is not rejected by a server that lost the shard, so we also send a
    // command with a key.
    let calls = vec![("SCAN", scan), ("TYPE", args([&*prefix.scratch]))];
    let answers = store.client.learn(server.call_each(&prefix.scratch, calls).await)?;
    let reply = answers.into_iter().next().ok_or_else(|| unavailable("the reply to SCAN is missing"))?;
    let (next, keys): (String, Vec<Bytes>) = convert_reply(reply)?;
    if server.session() != session {
        return Err(unavailable("the connection was replaced while keys were listed"));
    }
    Ok(((next != "0").then_some((session, next)), keys))
}

pub(super) async fn part(
    store: &RedisUnique,
    counter: &UniqueKey,
    cursor: Option<Vec<u8>>,
) -> Result<UniquePart, Error> {
    let key = store.unique(counter);
    let registers = async || Ok(UniquePart { contents: store.registers(&key).await?, next: None });
    let part = match counter.kind {
        UniqueKind::Sketch => registers().await,
        UniqueKind::Set => items(store, &key, cursor).await,
        UniqueKind::Adaptive(_) => match items(store, &key, cursor).await {
            Err(error) if is_wrong_type(&error) => registers().await,
            items => items,
        },
    };
    part.map_err(|error| of_key(error, &key))
}

async fn items(store: &RedisUnique, key: &str, cursor: Option<Vec<u8>>) -> Result<UniquePart, Error> {
    let position = cursor.and_then(|cursor| self::position(str::from_utf8(&cursor).ok()?));
    let page = async || {
        let server = store.client.server(key).await?;
        let session = server.session();
        let page = store.page(&server, server.connections(), key, at(&position, &session)).await?;
        Ok((session, page))
    };
    let (session, (next, items)) = with_retries(is_transient, page).await?;
    let next = (next != "0").then(|| format!("{session} {next}").into_bytes());
    Ok(UniquePart { contents: Contents::Items(items.into_iter().map(Vec::from).collect()), next })
}

/// Returns the cursor, or the initial cursor if the session is different. A cursor from another server or
/// process would skip entries.
fn at<'a>(position: &'a Position, session: &str) -> &'a str {
    position.as_ref().filter(|(of, _)| of == session).map_or("0", |(_, at)| at)
}

fn shard_and_position(cursor: Option<Vec<u8>>) -> (usize, Position) {
    let text = cursor.and_then(|cursor| String::from_utf8(cursor).ok()).unwrap_or_default();
    let (index, rest) = text.split_once(' ').unwrap_or((&text, ""));
    (index.parse().unwrap_or_default(), position(rest))
}

fn position(text: &str) -> Position {
    let (session, at) = text.rsplit_once(' ')?;
    Some((session.to_owned(), at.to_owned()))
}

/// Parses a key into a counter. Returns `None` if the key doesn't belong to this shard.
fn counter(store: &RedisUnique, shard: Shard, key: &[u8]) -> Option<UniqueKey> {
    let key = str::from_utf8(key).ok()?;
    let counter = UniqueKey::parse(key.strip_prefix(&store.client.prefix(shard).to_string())?)?;
    (store.client.shards().of(&counter.name) == shard).then_some(counter)
}

/// Returns a pattern that matches all keys of unique counters, and not much else.
fn pattern(prefix: &Prefix) -> String {
    let mut pattern = String::new();
    for c in prefix.to_string().chars() {
        if "*?[]\\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + "[sha]*"
}
