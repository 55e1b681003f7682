use std::sync::Mutex;
use std::time::Duration;

use fred::types::Value;
use tokio::time::Instant;

use super::topology::Topology;
use crate::redis::{Client, Queue};
use crate::shard::Shard;
use crate::{Error, ErrorKind};

/// What a server says of itself.
///
/// ```no_run
/// # async fn show(store: counter_core::RedisStore) -> Result<(), counter_core::Error> {
/// let server = store.server().await?;
/// assert!(server.scripts, "batches go as transactions, which cost more");
/// for warning in server.warnings() {
///     eprintln!("{warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisServer {
    /// Its version; `None` where `INFO` is not permitted.
    pub version: Option<String>,
    /// Whether it is a node of a cluster; `None` where `INFO` is not permitted.
    pub cluster: Option<bool>,
    /// Whether it runs scripts for this user.
    pub scripts: bool,
    /// Whether it executes transactions for this user; only where it runs no scripts is it asked.
    pub transactions: bool,
    /// How much memory it may take in bytes, 0 for all there is; `None` where `INFO` is not permitted.
    pub max_memory: Option<u64>,
    /// Its `maxmemory-policy`: what it does when that is used up; `None` where `INFO` is not permitted.
    pub eviction: Option<String>,
}

impl RedisServer {
    /// The settings of the server that break a promise of this store, each in a sentence: see
    /// [the guide](crate::guide::redis#memory-and-eviction).
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.scripts && !self.transactions {
            let words = "this user may run neither scripts (EVAL, EVALSHA) nor transactions (MULTI, EXEC), so \
                         nothing can be written: permit one of them";
            warnings.push(words.to_owned());
        }
        if let (Some(policy), Some(1..)) = (&self.eviction, self.max_memory)
            && let Some(cost) = cost(policy)
        {
            warnings
                .push(format!("maxmemory-policy is {policy}: when memory is short, {cost}; use noeviction"));
        }
        warnings
    }
}

/// What a policy takes away of what was promised.
fn cost(policy: &str) -> Option<&'static str> {
    if policy.starts_with("allkeys-") {
        Some(
            "counts and totals that were acknowledged are lost, and so is what guards against counting twice",
        )
    } else if policy.starts_with("volatile-") {
        Some("visitors, salts and the counts of limits are lost before their time")
    } else {
        None
    }
}

/// When the server was asked, and what was said about it then.
#[derive(Debug, Default)]
pub(super) struct Probed(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    at: Instant,
    /// Of the store, at that time.
    connections: u64,
    warnings: Vec<String>,
}

/// How long what was asked is good, unless a connection is made anew: settings change while a server runs.
const PERIOD: Duration = Duration::from_secs(600);

/// Asks at the start and says in the log what will not go well.
pub(super) async fn at_start(client: &Client) {
    let Ok(server) = look(client).await else { return };
    if server.cluster == Some(true)
        && matches!(client.topology, Topology::One(_))
        && !client.prefix(Shard::default()).is_tagged()
    {
        tracing::error!("this server is a node of a cluster: its address must begin with redis-cluster://");
    }
    if let Some(version) = &server.version {
        tracing::info!(version, scripts = server.scripts, "connected to the store");
    }
}

/// Asks again now and then, and after a connection was made anew, which may lead to another server.
pub(super) async fn now_and_then(client: &Client) {
    let connections = client.topology.connections();
    let is_due = client
        .probed
        .0
        .lock()
        .expect("nothing panics under this lock")
        .as_ref()
        .is_none_or(|last| last.connections != connections || last.at.elapsed() >= PERIOD);
    if is_due {
        // The next time will tell.
        drop(look(client).await);
    }
}

async fn look(client: &Client) -> Result<RedisServer, Error> {
    let connections = client.topology.connections();
    let server = probe(client).await?;
    let last = Last { at: Instant::now(), connections, warnings: server.warnings() };
    let before = client.probed.0.lock().expect("nothing panics under this lock").replace(last);
    let before = before.map(|last| last.warnings).unwrap_or_default();
    for warning in server.warnings() {
        if !before.contains(&warning) {
            tracing::warn!("{warning}");
        }
    }
    Ok(server)
}

pub(super) async fn probe(client: &Client) -> Result<RedisServer, Error> {
    let key = &client.prefix(Shard::default()).scratch;
    let script = vec!["return 1".into(), "1".into(), key.into()];
    let answer = client.topology.call::<i64>("EVAL", key, script).await;
    let refused = client.refusal.learn(&answer, Instant::now());
    if !refused {
        answer?;
        client.refusal.end();
    }
    let transactions = !refused || executes_transactions(client, key).await?;
    let info: Option<String> = client.topology.call("INFO", key, Vec::<Value>::new()).await.ok();
    let line = |name: &str| {
        let mut lines = info.as_deref()?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let version = line("valkey_version").or_else(|| line("redis_version"));
    Ok(RedisServer {
        version: version.map(str::to_owned),
        cluster: line("redis_mode").map(|mode| mode == "cluster"),
        scripts: !refused,
        transactions,
        max_memory: line("maxmemory").and_then(|bytes| bytes.parse().ok()),
        eviction: line("maxmemory_policy").map(str::to_owned),
    })
}

/// Executes nothing, at once.
async fn executes_transactions(client: &Client, key: &str) -> Result<bool, Error> {
    let server = client.topology.server(key).await?;
    let executed = async { server.watch_in(Queue::Upkeep, key).await?.execute(Vec::new()).await };
    match executed.await {
        Ok(_) => Ok(true),
        Err(error) if *error.kind() == ErrorKind::Refused => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_breaks_a_promise_is_told_where_memory_is_bounded() {
        for (policy, max_memory, told) in [
            ("noeviction", 1_000_000, None),
            ("allkeys-lru", 1_000_000, Some("counts")),
            ("allkeys-random", 1_000_000, Some("counts")),
            ("volatile-lfu", 1_000_000, Some("visitors")),
            ("volatile-ttl", 1_000_000, Some("visitors")),
            ("volatile-ttl", 0, None),
        ] {
            let server = RedisServer {
                version: None,
                cluster: None,
                scripts: true,
                transactions: true,
                max_memory: Some(max_memory),
                eviction: Some(policy.to_owned()),
            };
            let warnings = server.warnings();
            assert_eq!(warnings.len(), usize::from(told.is_some()), "{policy}: {warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains(told.unwrap_or_default())),
                "{warnings:?}"
            );
        }
    }
}
