//! The list of writers that have a fence. This allows us to detect if only a fence has been lost, and to
//! limit the number of writers.

use fred::bytes::Bytes;
use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::error::{Error, ErrorKind};
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::redis::has_code;
use crate::time::Timestamp;
use crate::visits::store::fence::Witness;

/// Hash field for the random mark of a [`Witness`], both in the list of writers and in the lifetimes.
/// Counters and writers can't have this name.
pub(crate) const MARK: &str = "";
/// Number of writers to look at in a round trip.
const SCAN_COUNT: &str = "500";
/// How long a writer must be idle until its fence is removed, and then the writer after the same time, in
/// seconds (30 days). A writer can still start over, but if it had a batch in flight, we can't find out any
/// more if this batch was applied.
const IDLE_TIMEOUT: u64 = 30 * 86_400;
const FENCE_EXPIRY_DELAY: u64 = 3600;
/// The sequence that is recorded for a writer with a missing fence.
const NO_SEQUENCE: &str = "0";

pub(crate) async fn witness(store: &RedisVisits, shard: Shard, writer: WriterId) -> Result<Witness, Error> {
    let keys = store.keys(shard);
    let marks = async |key: &str, fields: &[&str]| -> Result<Vec<Option<String>>, Error> {
        let args = [key].iter().chain(fields).map(|word| Value::from(*word)).collect();
        match store.client.call("HMGET", key, args).await {
            // Like a missing key, a key with a different type doesn't contain any marks.
            Err(error) if has_code(&error, "WRONGTYPE") => Ok(vec![None; fields.len()]),
            marks => marks,
        }
    };
    let writer = writer.to_string();
    let [data] = marks(&keys.total, &[MARK]).await?.try_into().unwrap_or([None]);
    let [writers, listed] = marks(&keys.writers, &[MARK, &writer]).await?.try_into().unwrap_or([None, None]);
    Ok(Witness { data, writers, listed: listed.is_some(), evicts: evicts(store, keys).await? })
}

/// Returns whether the server has evicted keys since it started, or `true` if this is unknown.
async fn evicts(store: &RedisVisits, keys: &Keys) -> Result<bool, Error> {
    let stats: Result<String, _> = store.client.call("INFO", &keys.total, vec!["stats".into()]).await;
    match stats {
        Ok(stats) => Ok(stats.lines().find_map(|line| line.strip_prefix("evicted_keys:")) != Some("0")),
        Err(error) if *error.kind() == ErrorKind::Unavailable => Err(error),
        Err(_) => Ok(true),
    }
}

/// Removes writers which have been idle for a month by the server clock, and records the activity of other
/// writers.
///
/// We don't delete a fence, but set an expiry, which is cleared by the next batch. If a writer comes back,
/// its fence is thus either intact or missing. When a writer with no fence is removed from the list, we also
/// remove the mark of the list, so that a lost fence will not be mistaken for lost data.
pub(crate) async fn forget_idle(store: &RedisVisits, shard: Shard) -> Result<(), Error> {
    let keys = store.keys(shard);
    let now = store.client.time(&keys.writers).await?;
    let mut cursor = "0".to_owned();
    loop {
        let args = [&keys.writers, &cursor, "COUNT", SCAN_COUNT].map(Value::from).to_vec();
        let (next, page): (String, Vec<Bytes>) = match store.client.call("HSCAN", &keys.writers, args).await {
            Err(error) if has_code(&error, "WRONGTYPE") => return Ok(()),
            page => page?,
        };
        let page: Vec<_> = page.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
        let page: Vec<_> = page.into_iter().filter(|(writer, _)| writer != MARK).collect();
        let fences: Vec<_> = page.iter().map(|(writer, _)| keys.fence_of(writer)).collect();
        // A key with a different type is treated as missing, and must not stop the scan.
        let reads = fences.iter().map(Value::from).collect();
        let stored: Vec<Option<Bytes>> = match fences.is_empty() {
            true => Vec::new(),
            false => store.client.call("MGET", &keys.writers, reads).await?,
        };
        let (mut calls, mut updates, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for (((writer, before), fence), stored) in page.iter().zip(fences).zip(stored) {
            let stored = stored.as_deref().map(text).unwrap_or_default();
            let sequence =
                stored.split(' ').next().filter(|sequence| !sequence.is_empty()).unwrap_or(NO_SEQUENCE);
            match before.split_once(' ') {
                Some((same, since)) if same == sequence => {
                    let idle =
                        since.parse().is_ok_and(|since| now > Timestamp::from_unix(since).plus(IDLE_TIMEOUT));
                    if idle && sequence == NO_SEQUENCE {
                        removed.push(Value::from(writer));
                    } else if idle {
                        calls.push((
                            "EXPIREAT",
                            vec![fence.into(), now.plus(FENCE_EXPIRY_DELAY).to_string().into()],
                        ));
                    }
                }
                _ => updates.extend([Value::from(writer), format!("{sequence} {now}").into()]),
            }
        }
        if !updates.is_empty() {
            calls.push(("HSET", [Value::from(&keys.writers)].into_iter().chain(updates).collect()));
        }
        if !removed.is_empty() {
            let args = [Value::from(&keys.writers), MARK.into()].into_iter().chain(removed);
            calls.push(("HDEL", args.collect()));
        }
        if !calls.is_empty() {
            store.client.call_all(&keys.writers, calls).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Converts bytes to text. They can be from another program.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
