use fred::types::Value;

use super::Shared;
use super::connection::Command;
use crate::{Bucket, CounterName, Error, Grid, Timestamp};

/// Buckets whose visitors are deleted by one command.
const KEYS: usize = 500;

pub(super) async fn forget(
    shared: &Shared,
    counter: &CounterName,
    grid: &Grid,
    now: Timestamp,
) -> Result<(), Error> {
    let keys = shared.keys(shared.shards.of(counter));
    let mut calls: Vec<Command> = vec![("HDEL", vec![(&keys.total).into(), (&**counter).into()])];
    for kept in grid.counts.iter() {
        let member = format!("{}:{counter}", kept.precision);
        // The samples last: who counts meanwhile begins the hash anew, and then it is known again.
        calls.push(("ZREM", vec![(&keys.known).into(), (&member).into()]));
        calls.push(("ZREM", vec![(&keys.due).into(), (&member).into()]));
        calls.push(("DEL", vec![keys.count(kept.precision, counter).into()]));
    }
    let visitors = grid.visitors.iter().flat_map(|kept| {
        let precision = kept.precision;
        let starts = precision.starts(kept.oldest(now)..now.plus(precision.as_seconds().into()));
        starts.map(move |start| Value::from(keys.unique(counter, Bucket { precision, start })))
    });
    let visitors: Vec<_> = visitors.collect();
    calls.extend(visitors.chunks(KEYS).map(|keys| ("DEL", keys.to_vec())));
    let _: Vec<Value> = shared.route.call_all(&keys.total, calls).await?;
    Ok(())
}
