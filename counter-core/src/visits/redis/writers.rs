//! The list of writers that have a fence: what shows that one is lost alone, and what keeps them few.

use fred::bytes::Bytes;
use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::redis::has_code;
use crate::shard::Shard;
use crate::visits::Witness;
use crate::writer::WriterId;
use crate::{Error, ErrorKind, Timestamp};

/// The field of the list and of the lifetimes that has their mark: no counter and no writer is called so.
pub(super) const MARK: &str = "";
/// Writers whose fences are looked at in one exchange.
const PAGE: &str = "500";
/// After so long without a batch a fence is forgotten, and as long after that its writer, in seconds: 30 days. If it comes back, it begins anew;
/// only of a batch that it had under way nobody can say any more whether it was applied.
const SILENCE: u64 = 30 * 86_400;
const HOUR: u64 = 3600;
/// Where a fence would have its sequence.
const NONE: &str = "0";

pub(super) async fn witness(store: &RedisVisits, shard: Shard, writer: WriterId) -> Result<Witness, Error> {
    let keys = store.keys(shard);
    let marks = async |key: &str, fields: &[&str]| -> Result<Vec<Option<String>>, Error> {
        let words = [key].iter().chain(fields).map(|word| Value::from(*word)).collect();
        match store.client.call("HMGET", key, words).await {
            // Of something else under the key nothing can be learnt, as of nothing.
            Err(error) if has_code(&error, "WRONGTYPE") => Ok(vec![None; fields.len()]),
            marks => marks,
        }
    };
    let writer = writer.to_string();
    let [data] = marks(&keys.total, &[MARK]).await?.try_into().unwrap_or([None]);
    let [writers, listed] = marks(&keys.writers, &[MARK, &writer]).await?.try_into().unwrap_or([None, None]);
    Ok(Witness { data, writers, listed: listed.is_some(), evicts: evicts(store, keys).await? })
}

/// Whether the server has evicted keys since it started; it has where it does not say.
async fn evicts(store: &RedisVisits, keys: &Keys) -> Result<bool, Error> {
    let stats: Result<String, _> = store.client.call("INFO", &keys.total, vec!["stats".into()]).await;
    match stats {
        Ok(stats) => Ok(stats.lines().find_map(|line| line.strip_prefix("evicted_keys:")) != Some("0")),
        Err(error) if *error.kind() == ErrorKind::Unavailable => Err(error),
        Err(_) => Ok(true),
    }
}

/// Forgets writers that were silent for a month, by the server's clock, and notes what the others do.
///
/// A fence is not deleted but given an expiry, which the next batch of its writer takes back: whenever a writer
/// returns, its fence is there or it is not. Whenever a writer without a fence leaves the list, the mark of the list
/// goes too, so that a fence that is gone is not taken for data that are gone.
pub(super) async fn forget_silent(store: &RedisVisits, shard: Shard) -> Result<(), Error> {
    let keys = store.keys(shard);
    let now = time(&store.client.call::<Vec<_>>("TIME", &keys.writers, Vec::new()).await?)?;
    let mut cursor = "0".to_owned();
    loop {
        let words = [&keys.writers, &cursor, "COUNT", PAGE].map(Value::from).to_vec();
        let (next, page): (String, Vec<Bytes>) = match store.client.call("HSCAN", &keys.writers, words).await
        {
            Err(error) if has_code(&error, "WRONGTYPE") => return Ok(()),
            page => page?,
        };
        let page: Vec<_> = page.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
        let page: Vec<_> = page.into_iter().filter(|(writer, _)| writer != MARK).collect();
        let fences: Vec<_> = page.iter().map(|(writer, _)| keys.fence(writer)).collect();
        // What has another type is read as nothing, and ends no walk.
        let reads = fences.iter().map(Value::from).collect();
        let stored: Vec<Option<Bytes>> = match fences.is_empty() {
            true => Vec::new(),
            false => store.client.call("MGET", &keys.writers, reads).await?,
        };
        let (mut calls, mut seen, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (((writer, before), fence), stored) in page.iter().zip(fences).zip(stored) {
            let stored = stored.as_deref().map(text).unwrap_or_default();
            let sequence = stored.split(' ').next().filter(|sequence| !sequence.is_empty()).unwrap_or(NONE);
            match before.split_once(' ') {
                Some((same, since)) if same == sequence => {
                    let silent =
                        since.parse().is_ok_and(|since| now > Timestamp::from_unix(since).plus(SILENCE));
                    if silent && sequence == NONE {
                        gone.push(Value::from(writer));
                    } else if silent {
                        calls.push(("EXPIREAT", vec![fence.into(), now.plus(HOUR).to_string().into()]));
                    }
                }
                _ => seen.extend([Value::from(writer), format!("{sequence} {now}").into()]),
            }
        }
        if !seen.is_empty() {
            calls.push(("HSET", [Value::from(&keys.writers)].into_iter().chain(seen).collect()));
        }
        if !gone.is_empty() {
            let words = [Value::from(&keys.writers), MARK.into()].into_iter().chain(gone);
            calls.push(("HDEL", words.collect()));
        }
        if !calls.is_empty() {
            let _: Vec<Value> = store.client.call_all(&keys.writers, calls).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// What another program may have written, as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The seconds of an answer to TIME.
pub(super) fn time(answer: &[String]) -> Result<Timestamp, Error> {
    let seconds = answer.first().and_then(|seconds| seconds.parse().ok());
    seconds
        .map(Timestamp::from_unix)
        .ok_or_else(|| Error::new(ErrorKind::Malformed { key: "TIME".to_owned() }))
}
