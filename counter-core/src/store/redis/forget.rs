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
    let _: Vec<Value> = shared.route.call_all(&keys.total, calls).await?;
    // One piece after the other: there may be millions, if a visitor precision is fine and kept for long.
    for kept in grid.visitors.iter() {
        let precision = kept.precision;
        let mut starts = precision.starts(kept.oldest(now)..now.plus(precision.as_seconds().into()));
        loop {
            let some = starts.by_ref().take(KEYS);
            let some: Vec<Value> =
                some.map(|start| keys.unique(counter, Bucket { precision, start }).into()).collect();
            if some.is_empty() {
                break;
            }
            let _: Value = shared.route.call("DEL", &keys.total, some).await?;
        }
    }
    Ok(())
}
