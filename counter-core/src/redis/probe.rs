use fred::bytes::Bytes;
use fred::types::Value;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::client::Client;
use super::connection::{error_message, has_code};
use super::probed::Probing;
use super::retry::is_refusal;
use super::script::{Script, args};
use super::server::{RedisServer, RefusedCommand};
use super::topology::Topology;
use super::transaction::Queue;
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::family::shard::Shard;
use crate::sketch::{Register, Sketch};
use crate::time::Timestamp;

impl Client {
    /// Waits a few seconds at most for the initial connection, and logs warnings for unsuitable server
    /// settings.
    pub(crate) async fn wait(&self) {
        self.topology.wait().await;
        // Batches need more commands than other families, so they are only tried with the first batch.
        let Ok(server) = self.probe_settings().await else { return };
        self.note(&server, Probing::Settings);
        if server.cluster == Some(true)
            && matches!(self.topology, Topology::One(_))
            && !self.prefix(Shard::default()).is_tagged()
        {
            tracing::error!("this server is a cluster node: use a redis-cluster:// address");
        }
        if let Some(version) = &server.version {
            tracing::info!(version, scripts = server.scripts, "connected to the store");
        }
    }

    /// Probes the server if the previous probe has expired.
    pub(crate) async fn probe_if_due(&self) {
        if self.probed.is_due(self.topology.connections()) {
            // If this fails, the next call will retry.
            drop(self.probe_and_warn().await);
        }
    }

    async fn probe_and_warn(&self) -> Result<RedisServer, Error> {
        let server = self.probe().await?;
        self.note(&server, Probing::Commands);
        Ok(server)
    }

    /// Stores the result of a probe, and logs new warnings.
    fn note(&self, server: &RedisServer, probing: Probing) {
        for warning in self.probed.replace(self.topology.connections(), server.clone(), probing) {
            tracing::warn!("{warning}");
        }
    }

    /// Returns an error if the server refuses a command for which `is_needed` returns `true`. This only queries
    /// the server if the commands have not been tried, or if a needed command was refused before.
    pub(crate) async fn check(&self, is_needed: impl Fn(&str) -> bool) -> Result<(), Error> {
        let first_refused =
            |server: &RedisServer| server.refused.iter().find(|refused| is_needed(refused.command)).cloned();
        let before = self.probed.commands(first_refused);
        if matches!(before, Some(None)) {
            return Ok(());
        }
        match self.probe_and_warn().await {
            Ok(server) => match first_refused(&server) {
                Some(refused) => Err(Error::new(ErrorKind::Rejected).caused_by(refused.to_string())),
                None => Ok(()),
            },
            Err(error) if before.is_some() => Err(error),
            // The command itself will fail, with a better error.
            Err(_) => Ok(()),
        }
    }

    /// Queries the server properties, and tries commands. For a cluster, this queries the server for shard 0.
    pub(crate) fn probe(&self) -> StoreFuture<'_, RedisServer> {
        Box::pin(async move {
            let server = self.probe_settings().await?;
            let (refused, hyperloglogs) = self.try_commands(&self.prefix(Shard::default()).scratch).await;
            Ok(RedisServer { refused, hyperloglogs, ..server })
        })
    }

    /// Queries the server properties, without trying commands.
    fn probe_settings(&self) -> StoreFuture<'_, RedisServer> {
        Box::pin(async move {
            let key = &self.prefix(Shard::default()).scratch;
            let rejection = self.script_rejection(key).await?;
            match &rejection {
                Some(error) => self.rejection.start(error, Instant::now()),
                None => self.rejection.end(),
            }
            let transactions = rejection.is_none() || self.executes_transactions(key).await?;
            let info: Option<String> = self.call("INFO", key, Vec::new()).await.ok();
            let line = |name: &str| {
                let mut lines = info.as_deref()?.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            };
            let version = line("valkey_version").or_else(|| line("redis_version"));
            Ok(RedisServer {
                version: version.map(str::to_owned),
                is_outdated: line("redis_version").map(is_outdated),
                cluster: line("redis_mode").map(|mode| mode == "cluster"),
                scripts: rejection.is_none(),
                transactions,
                refused: Vec::new(),
                hyperloglogs: None,
                max_memory: line("maxmemory").and_then(|bytes| bytes.parse().ok()),
                eviction: line("maxmemory_policy").map(str::to_owned),
            })
        })
    }

    /// Returns `true`, and uses transactions from now on, if the server rejects scripts.
    pub(super) fn rejects_scripts(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let rejection = self.script_rejection(&self.prefix(Shard::default()).scratch).await;
            let Ok(Some(error)) = rejection else { return false };
            self.rejection.start(&error, Instant::now());
            true
        })
    }

    /// Returns the error if the server rejects scripts, or if it rejects the keys that our scripts derive from
    /// their arguments.
    async fn script_rejection(&self, key: &str) -> Result<Option<String>, Error> {
        let script = Script::new(DERIVED_KEY);
        let evaluate = async |command, text: Value| {
            let reply = self.call::<String>(command, key, vec![text, "1".into(), key.into()]).await;
            match reply {
                Ok(error) => Ok(Some(error).filter(|error| !error.is_empty())),
                Err(error) if has_code(&error, "NOSCRIPT") => Ok(None),
                Err(error) if is_refusal(&error) => Ok(Some(message(&error))),
                Err(error) => Err(error),
            }
        };
        match evaluate("EVAL", script.source()).await? {
            None => evaluate("EVALSHA", script.digest()).await,
            rejection => Ok(rejection),
        }
    }

    /// Executes an empty transaction.
    async fn executes_transactions(&self, key: &str) -> Result<bool, Error> {
        let server = self.topology.server(key).await?;
        let executed = async { server.watch_in(Queue::Upkeep, key).await?.execute(Vec::new()).await };
        match executed.await {
            Ok(_) => Ok(true),
            Err(error) if *error.kind() == ErrorKind::Rejected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tries all commands that change something in a batch, and those that the cleaner and reads of visitors
    /// also need. Returns those that are refused, and if the server uses our encoding of HyperLogLogs, or `None`
    /// if this is unknown.
    async fn try_commands(&self, scratch: &str) -> (Vec<RefusedCommand>, Option<bool>) {
        // The type of these keys never changes. Another process may do the same at the same time.
        let [hash, list, sketch, dense] =
            ["hash", "list", "sketch", "dense"].map(|kind| format!("{scratch}:{kind}"));
        // The server quotes the arguments of an unknown command, so that they must be text.
        let elements = ["a", "b", "c"];
        let known: Sketch = elements.map(|element| Register::of(element.as_bytes())).into_iter().collect();
        let expiry = Timestamp::now().plus(60).to_string();
        let (mut refused, mut hyperloglogs) = (Vec::new(), None);
        let delete = || args([&hash, &list, &sketch, &dense]);
        // If we can't delete keys, we must not create any.
        if let Err(error) = self.call::<Value>("DEL", scratch, delete()).await {
            if is_refusal(&error) {
                refused.push(RefusedCommand { command: "DEL", reason: message(&error) });
            }
            return (refused, hyperloglogs);
        }
        let commands = [
            ("HINCRBY", args([&*hash, "n", "1"])),
            ("HSETNX", args([&*hash, "n", ""])),
            ("HSET", args([&*hash, "m", ""])),
            ("HDEL", args([&*hash, "m"])),
            ("ZADD LT", args([&*list, "LT", "1", "n"])),
            ("ZREM", args([&*list, "n"])),
            ("EXISTS", args([&*hash])),
            ("SET", vec![(&dense).into(), Bytes::from(known.to_redis()).into()]),
            ("PFADD", [&*sketch].iter().chain(&elements).map(|word| Value::from(*word)).collect()),
            ("PFMERGE", args([&sketch, &dense])),
            ("EXPIREAT", args([&sketch, &expiry])),
            ("GET", args([&sketch])),
            ("DEL", delete()),
        ];
        let replies = commands.map(|(command, args)| async move {
            let name = command.split(' ').next().unwrap_or(command);
            (command, self.call::<Value>(name, scratch, args).await)
        });
        for (command, reply) in join_all(replies).await {
            match (command, &reply) {
                (_, Err(error)) if is_refusal(error) => {
                    refused.push(RefusedCommand { command, reason: message(error) });
                }
                ("PFADD" | "PFMERGE" | "GET", Err(error)) if *error.kind() == ErrorKind::Rejected => {
                    hyperloglogs = Some(false);
                }
                ("GET", Ok(value)) => {
                    let found = value.as_bytes().map(Sketch::from_redis);
                    let is_known = found.map(|found| found.is_ok_and(|found| known.includes(&found)));
                    hyperloglogs = hyperloglogs.or(is_known);
                }
                _ => {}
            }
        }
        (refused, hyperloglogs)
    }
}

/// A script that returns the error if it may use the key that it gets, but not a key derived from it.
const DERIVED_KEY: &str = "\
local derived = KEYS[1] .. ':derived'
if type(redis.pcall('DEL', KEYS[1])) == 'table' then
  return ''
end
local replies = {redis.pcall('HINCRBY', KEYS[1], 'n', 1), redis.pcall('HINCRBY', derived, 'n', 1)}
redis.pcall('DEL', KEYS[1])
redis.pcall('DEL', derived)
return type(replies[1]) == 'number' and type(replies[2]) == 'table' and replies[2].err or ''";

/// Returns the words of the server, without the arguments of a command, which are different each time.
fn message(error: &Error) -> String {
    let message = error_message(error).map_or_else(|| error.to_string(), str::to_owned);
    message.split(", with args").next().unwrap_or_default().to_owned()
}

/// Returns `true` if a version is older than Redis 6.2, which introduced `ZADD LT` and `SET EXAT`.
fn is_outdated(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_6_2_are_outdated() {
        for (version, expected) in
            [("5.0.6", true), ("6.0.16", true), ("6.2.0", false), ("7.0.15", false), ("10.0", false)]
        {
            assert_eq!(is_outdated(version), expected, "{version}");
        }
    }
}
