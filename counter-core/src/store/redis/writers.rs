//! The list of writers that have a fence: what shows that one is lost alone, and what keeps them few.

use fred::types::Value;

use super::Shared;
use super::connection::says;
use super::keys::Keys;
use crate::store::Witness;
use crate::{Error, ErrorKind, Shard, Timestamp, WriterId};

/// The field of the list and of the lifetimes that has their mark: no counter and no writer is called so.
pub(super) const MARK: &str = "";
/// Writers whose fences are looked at in one exchange.
const PAGE: &str = "500";
/// A writer that did nothing for so long is forgotten, in seconds: 30 days. If it comes back, it begins anew;
/// only of a batch that it had under way nobody can say any more whether it was applied.
const SILENCE: u64 = 30 * 86_400;

pub(super) async fn witness(shared: &Shared, shard: Shard, writer: WriterId) -> Result<Witness, Error> {
    let keys = shared.keys(shard);
    let marks = async |key: &str, fields: &[&str]| -> Result<Vec<Option<String>>, Error> {
        let words = [key].iter().chain(fields).map(|word| Value::from(*word)).collect();
        match shared.route.call("HMGET", key, words).await {
            // Of something else under the key nothing can be learnt, as of nothing.
            Err(error) if says(&error, "WRONGTYPE") => Ok(vec![None; fields.len()]),
            marks => marks,
        }
    };
    let writer = writer.to_string();
    let [data] = marks(&keys.total, &[MARK]).await?.try_into().unwrap_or([None]);
    let [writers, listed] = marks(&keys.writers, &[MARK, &writer]).await?.try_into().unwrap_or([None, None]);
    Ok(Witness { data, writers, listed: listed.is_some(), evicts: evicts(shared, keys).await? })
}

/// Whether the server has evicted keys since it started; it has where it does not say.
async fn evicts(shared: &Shared, keys: &Keys) -> Result<bool, Error> {
    let stats: Result<String, _> = shared.route.call("INFO", &keys.total, vec!["stats".into()]).await;
    match stats {
        Ok(stats) => Ok(stats.lines().find_map(|line| line.strip_prefix("evicted_keys:")) != Some("0")),
        Err(error) if *error.kind() == ErrorKind::Unavailable => Err(error),
        Err(_) => Ok(true),
    }
}

/// Forgets writers that were silent for a month, by the server's clock, and notes what the others do.
///
/// Whenever one is forgotten, the mark of the list goes, so that nobody takes a fence that is gone for data
/// that are gone. At any moment between two of these commands a writer may come back: its fence is there or
/// it is not, and it begins anew.
pub(super) async fn forget_silent(shared: &Shared, shard: Shard) -> Result<(), Error> {
    let keys = shared.keys(shard);
    let now = time(&shared.route.call::<Vec<_>>("TIME", &keys.writers, Vec::new()).await?)?;
    let mut cursor = "0".to_owned();
    loop {
        let words = [&keys.writers, &cursor, "COUNT", PAGE].map(Value::from).to_vec();
        let (next, page): (String, Vec<String>) = match shared.route.call("HSCAN", &keys.writers, words).await
        {
            Err(error) if says(&error, "WRONGTYPE") => return Ok(()),
            page => page?,
        };
        let page: Vec<_> = page.chunks_exact(2).filter(|pair| pair[0] != MARK).collect();
        let fences: Vec<_> = page.iter().map(|pair| keys.fence(&pair[0])).collect();
        // What has another type is read as nothing, and ends no walk.
        let reads = fences.iter().map(Value::from).collect();
        let stored: Vec<Option<String>> = match fences.is_empty() {
            true => Vec::new(),
            false => shared.route.call("MGET", &keys.writers, reads).await?,
        };
        let (mut seen, mut silent) = (vec![Value::from(&keys.writers)], Vec::new());
        for ((pair, fence), stored) in page.iter().zip(fences).zip(stored) {
            let sequence = stored.as_deref().and_then(|stored| stored.split(' ').next()).unwrap_or("0");
            match pair[1].split_once(' ') {
                Some((before, since)) if before == sequence => {
                    let since = since.parse().map_or(now, Timestamp::from_unix);
                    if now > since.plus(SILENCE) {
                        silent.push((pair[0].clone(), fence));
                    }
                }
                _ => seen.extend([Value::from(&pair[0]), format!("{sequence} {now}").into()]),
            }
        }
        let mut calls = Vec::new();
        if seen.len() > 1 {
            calls.push(("HSET", seen));
        }
        if !silent.is_empty() {
            let (writers, fences): (Vec<_>, Vec<_>) = silent.into_iter().unzip();
            calls.push(("DEL", fences.into_iter().map(Value::from).collect()));
            let fields = writers.into_iter().map(Value::from);
            calls.push(("HDEL", [(&keys.writers).into(), MARK.into()].into_iter().chain(fields).collect()));
        }
        if !calls.is_empty() {
            let _: Vec<Value> = shared.route.call_all(&keys.writers, calls).await?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// The seconds of an answer to TIME.
pub(super) fn time(answer: &[String]) -> Result<Timestamp, Error> {
    let seconds = answer.first().and_then(|seconds| seconds.parse().ok());
    seconds
        .map(Timestamp::from_unix)
        .ok_or_else(|| Error::new(ErrorKind::Malformed { key: "TIME".to_owned() }))
}
