use std::collections::HashMap;
use std::ops::Range;

use fred::bytes::Bytes;
use fred::types::Value;
use futures_util::future::try_join_all;

use super::Shared;
use crate::{Bucket, CounterName, Error, ErrorKind, Precision, Sample, Shard, Sketch, Timestamp};

/// Sketches asked for at once: up to 200 KB an answer.
const SKETCHES: usize = 16;

pub(super) async fn samples(
    shared: &Shared,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Vec<Sample>, Error> {
    let key = shared.keys(shared.shards.of(counter)).count(precision, counter);
    let fields: HashMap<String, String> = shared.route.call("HGETALL", &key, vec![(&key).into()]).await?;
    let mut samples = Vec::with_capacity(fields.len());
    for (start, count) in fields {
        let (Ok(start), Ok(count)) = (start.parse(), count.parse()) else {
            return Err(Error::new(ErrorKind::Malformed { key }));
        };
        let start = Timestamp::from_unix(start);
        if range.contains(&start) {
            samples.push(Sample { start, count });
        }
    }
    samples.sort_unstable();
    Ok(samples)
}

pub(super) async fn visitors(
    shared: &Shared,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Sketch, Error> {
    let mut union = Sketch::new();
    for shard in shared.shards.iter() {
        let counters = counters.iter().filter(|counter| shared.shards.of(counter) == shard);
        let all = counters.flat_map(|counter| buckets.iter().map(move |bucket| (counter, *bucket)));
        let names = shared.keys(shard);
        let keys: Vec<_> = all.map(|(counter, bucket)| names.unique(counter, bucket)).collect();
        for keys in keys.chunks(SKETCHES) {
            merge(shared, keys, &mut union).await?;
        }
    }
    Ok(union)
}

async fn merge(shared: &Shared, keys: &[String], union: &mut Sketch) -> Result<(), Error> {
    let words = keys.iter().map(Value::from).collect();
    let values: Vec<Option<Bytes>> = shared.route.call("MGET", &keys[0], words).await?;
    for (key, value) in keys.iter().zip(values) {
        let Some(value) = value else { continue };
        let malformed = |error| Error::new(ErrorKind::Malformed { key: key.clone() }).caused_by(error);
        union.merge(&Sketch::from_redis(&value).map_err(malformed)?);
    }
    Ok(())
}

pub(super) async fn known(
    shared: &Shared,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<Vec<(CounterName, Precision)>, Error> {
    let pages = shared.shards.iter().map(|shard| page(shared, shard, precisions, from, limit));
    Ok(try_join_all(pages).await?.concat())
}

async fn page(
    shared: &Shared,
    shard: Shard,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<Vec<(CounterName, Precision)>, Error> {
    let key = &shared.keys(shard).known;
    let page = |precision: &Precision| {
        // `;` follows `:`, so this is all that begins with `{precision}:`.
        let (first, end) = (format!("[{precision}:{from}"), format!("({precision};"));
        [key, &first, &end, "LIMIT", "0", &limit.to_string()].map(Value::from).to_vec()
    };
    let calls: Vec<_> = precisions.iter().map(page).collect();
    let pages: Vec<Vec<String>> = shared.route.call_all("ZRANGEBYLEX", key, calls).await?;
    let members = pages.iter().zip(precisions).flat_map(|(page, p)| page.iter().map(move |m| (m, *p)));
    // Other programs may know names that are none here: they are not shown.
    Ok(members
        .filter_map(|(member, precision)| {
            let (_, name) = member.split_once(':')?;
            Some((CounterName::new(name).ok()?, precision))
        })
        .collect())
}
