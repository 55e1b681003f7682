use std::collections::HashMap;
use std::ops::Range;

use fred::bytes::Bytes;
use fred::types::Value;

use super::Shared;
use crate::{Bucket, CounterName, Error, ErrorKind, Precision, Sample, Sketch, Timestamp};

/// Sketches asked for at once: up to 200 KB an answer.
const SKETCHES: usize = 16;

pub(super) async fn samples(
    shared: &Shared,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Vec<Sample>, Error> {
    let key = shared.keys.count(precision, counter);
    let fields: HashMap<String, String> =
        shared.connection.call("HGETALL", &key, vec![(&key).into()]).await?;
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
    let all = counters.iter().flat_map(|counter| buckets.iter().map(move |bucket| (counter, *bucket)));
    let keys: Vec<_> = all.map(|(counter, bucket)| shared.keys.unique(counter, bucket)).collect();
    let mut union = Sketch::new();
    for keys in keys.chunks(SKETCHES) {
        let words = keys.iter().map(Value::from).collect();
        let values: Vec<Option<Bytes>> = shared.connection.call("MGET", &keys[0], words).await?;
        for (key, value) in keys.iter().zip(values) {
            let Some(value) = value else { continue };
            let sketch = Sketch::from_redis(&value);
            union.merge(
                &sketch.map_err(|error| {
                    Error::new(ErrorKind::Malformed { key: key.clone() }).caused_by(error)
                })?,
            );
        }
    }
    Ok(union)
}

pub(super) async fn known(
    shared: &Shared,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<Vec<(CounterName, Precision)>, Error> {
    let key = &shared.keys.known;
    let page = |precision: &Precision| {
        // `;` follows `:`, so this is all that begins with `{precision}:`.
        let (first, end) = (format!("[{precision}:{from}"), format!("({precision};"));
        [key, &first, &end, "LIMIT", "0", &limit.to_string()].map(Value::from).to_vec()
    };
    let calls: Vec<_> = precisions.iter().map(page).collect();
    let pages: Vec<Vec<String>> = shared.connection.call_all("ZRANGEBYLEX", key, calls).await?;
    let members = pages.iter().zip(precisions).flat_map(|(page, p)| page.iter().map(move |m| (m, *p)));
    // Other programs may know names that are none here: they are not shown.
    Ok(members
        .filter_map(|(member, precision)| {
            let (_, name) = member.split_once(':')?;
            Some((CounterName::new(name).ok()?, precision))
        })
        .collect())
}
