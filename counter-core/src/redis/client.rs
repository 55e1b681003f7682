use std::sync::Arc;

use fred::error::Error as FredError;
use fred::types::{FromValue, Value};
use tokio::time::Instant;

use super::connection::{Command, Connection, convert_reply, has_code, unavailable};
use super::namespace::{Namespace, Prefix};
use super::probed::Probed;
use super::rejection::ScriptRejection;
use super::retry::is_refusal;
use super::script::{Call, Script};
use super::server::RedisServer;
use super::topology::Topology;
use crate::error::Error;
use crate::family::future::{BoxFuture, StoreFuture};
use crate::family::shard::{Shard, Shards};

/// A client for a single namespace, used by all counter families to send commands.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) topology: Topology,
    shards: Shards,
    /// Key prefixes, by shard.
    prefixes: Box<[Prefix]>,
    pub(super) rejection: ScriptRejection,
    pub(super) probed: Probed,
}

impl Client {
    /// Creates a client. The namespace is not sharded if `shards` is `None`.
    pub(crate) fn new(topology: Topology, namespace: &Namespace, shards: Option<Shards>) -> Self {
        let prefixes = match shards {
            None => [Prefix::whole(namespace)].into(),
            Some(shards) => shards.iter().map(|shard| Prefix::of(namespace, shard)).collect(),
        };
        Self {
            topology,
            shards: shards.unwrap_or(Shards::ONE),
            prefixes,
            rejection: ScriptRejection::default(),
            probed: Probed::default(),
        }
    }

    pub(crate) const fn shards(&self) -> Shards {
        self.shards
    }

    /// Returns the key prefix for a shard.
    pub(crate) fn prefix(&self, shard: Shard) -> &Prefix {
        &self.prefixes[shard.index()]
    }

    /// Returns the key prefix for the shard that this name belongs to.
    pub(crate) fn prefix_of(&self, name: &str) -> &Prefix {
        self.prefix(self.shards.of(name))
    }

    pub(crate) fn connections(&self) -> u64 {
        self.topology.connections()
    }

    /// Returns the result of `read` for the latest known server properties, or `None` if the server has not been
    /// probed.
    pub(crate) fn known_server<T>(&self, read: impl FnOnce(&RedisServer) -> T) -> Option<T> {
        self.probed.server(read)
    }

    /// Polls `by_script`, or `without_scripts` if the server rejects scripts. Both futures must do the same
    /// work. A script that is not executed completely must have no effect.
    ///
    /// Futures are lazy, so passing both costs nothing.
    pub(crate) async fn scripted<T>(
        &self,
        by_script: impl Future<Output = Result<T, Error>>,
        without_scripts: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.rejection.runs_scripts(Instant::now()) {
            let reply = by_script.await;
            let is_rejected = self.rejection.learn(&reply, Instant::now())
                || match &reply {
                    Err(error) if is_refusal(error) => self.rejects_scripts().await,
                    _ => false,
                };
            if !is_rejected {
                return reply;
            }
        }
        without_scripts.await
    }

    pub(crate) async fn run<R: FromValue>(&self, script: &Script, call: Call) -> Result<R, Error> {
        let (first, args) = call.args(script);
        let reply = self.evaluate(script, &first, args).await?;
        match reply.convert() {
            Ok(reply) => Ok(reply),
            // The type that a script returns does not depend on the data, so this can't be the reply to our
            // script.
            Err(error) => Err(self.reject_reply(&first, error).await),
        }
    }

    fn evaluate<'a>(
        &'a self,
        script: &'a Script,
        first: &'a str,
        mut args: Vec<Value>,
    ) -> StoreFuture<'a, Value> {
        Box::pin(async move {
            match self.request("EVALSHA", first, &args).await {
                Err(error) if has_code(&error, "NOSCRIPT") => {
                    args[0] = script.source();
                    self.request("EVAL", first, &args).await
                }
                reply => reply,
            }
        })
    }

    /// Replaces the connection because a reply does not match the command. The command may have been
    /// executed.
    pub(super) fn reject_reply<'a>(&'a self, key: &'a str, error: FredError) -> BoxFuture<'a, Error> {
        Box::pin(async move {
            if let Ok(connection) = self.connection(key).await {
                connection.reject_reply();
            }
            unavailable(format!("unexpected reply to the command: {error}"))
        })
    }

    /// Sends a command to the server for this key.
    pub(crate) async fn call<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        args: Vec<Value>,
    ) -> Result<R, Error> {
        convert_reply(self.request(command, key, &args).await)
    }

    /// Sends the command for [`call`](Self::call). This is not generic, so that only the conversion is
    /// compiled for different reply types.
    fn request<'a>(
        &'a self,
        command: &'static str,
        key: &'a str,
        args: &'a [Value],
    ) -> StoreFuture<'a, Value> {
        Box::pin(async move {
            let send =
                |server: Arc<Connection>| async move { server.call(command, key, args.to_vec()).await };
            self.topology.send(key, send).await
        })
    }

    /// Sends commands in a pipeline to the server for this key, and returns the replies in the same order.
    pub(crate) async fn call_all(&self, key: &str, calls: Vec<Command>) -> Result<Vec<Value>, Error> {
        self.call_each(key, calls).await?.into_iter().collect()
    }

    /// Sends commands in a pipeline to the server for this key, and returns the replies in the same order. If
    /// a key holds the wrong type for a command, the server error is returned in place of the reply.
    pub(crate) fn call_each<'a>(
        &'a self,
        key: &'a str,
        calls: Vec<Command>,
    ) -> StoreFuture<'a, Vec<Result<Value, Error>>> {
        Box::pin(async move {
            let send = |server: Arc<Connection>| {
                let calls = calls.clone();
                async move { server.call_each(key, calls).await }
            };
            self.topology.send(key, send).await
        })
    }

    /// Returns the connection used for commands on this key: the server, or the client if the user created
    /// one, which routes commands itself.
    pub(crate) async fn connection(&self, key: &str) -> Result<Arc<Connection>, Error> {
        self.topology.connection(key).await
    }

    /// Returns the server for this key, for commands that must all be sent to the same server.
    pub(crate) async fn server(&self, key: &str) -> Result<Arc<Connection>, Error> {
        self.topology.server(key).await
    }

    /// Marks the cluster slot map as stale if a reply shows that it is out of date. Returns the reply.
    pub(crate) fn learn<T>(&self, reply: Result<T, Error>) -> Result<T, Error> {
        self.topology.learn(reply)
    }
}
