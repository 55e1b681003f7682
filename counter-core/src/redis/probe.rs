use tokio::time::Instant;

use super::client::Client;
use super::server::RedisServer;
use super::topology::Topology;
use super::transaction::Queue;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::shard::Shard;

impl Client {
    /// Waits a few seconds at most for the initial connection, and logs warnings for unsuitable server
    /// settings.
    pub(crate) async fn wait(&self) {
        self.topology.wait().await;
        let Ok(server) = self.probe_and_warn().await else { return };
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
        let connections = self.topology.connections();
        let server = self.probe().await?;
        for warning in self.probed.replace(connections, server.warnings()) {
            tracing::warn!("{warning}");
        }
        Ok(server)
    }

    /// Queries the server properties. For a cluster, this queries the server for shard 0.
    pub(crate) fn probe(&self) -> StoreFuture<'_, RedisServer> {
        Box::pin(async move {
            let key = &self.prefix(Shard::default()).scratch;
            let script = vec!["return 1".into(), "1".into(), key.into()];
            let reply = self.call::<i64>("EVAL", key, script).await;
            let rejected = self.rejection.learn(&reply, Instant::now());
            if !rejected {
                reply?;
                self.rejection.end();
            }
            let transactions = !rejected || self.executes_transactions(key).await?;
            let info: Option<String> = self.call("INFO", key, Vec::new()).await.ok();
            let line = |name: &str| {
                let mut lines = info.as_deref()?.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            };
            let version = line("valkey_version").or_else(|| line("redis_version"));
            Ok(RedisServer {
                version: version.map(str::to_owned),
                cluster: line("redis_mode").map(|mode| mode == "cluster"),
                scripts: !rejected,
                transactions,
                max_memory: line("maxmemory").and_then(|bytes| bytes.parse().ok()),
                eviction: line("maxmemory_policy").map(str::to_owned),
            })
        })
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
}
