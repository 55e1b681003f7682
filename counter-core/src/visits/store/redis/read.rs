//! Reads from Redis, in a single round trip to each shard.

pub(super) mod samples;
pub(super) mod visitors;
pub(super) mod bins;
pub(super) mod known;

use fred::types::Value;

use super::RedisVisits;
use crate::family::name::CounterName;
use crate::redis::Group;
use crate::visits::store::reading::Unreadable;

type Results<T> = Vec<Result<T, Unreadable>>;

/// Parses a number without copying the bytes, because a table of counters can contain hundreds of thousands
/// of numbers.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn by_shard<'a>(store: &RedisVisits, counters: &'a [CounterName]) -> Vec<Group<&'a CounterName>> {
    store.client.by_shard(counters, |counter| &***counter)
}
