use std::sync::Arc;

use fred::error::Error as FredError;
use fred::types::{FromValue, Value};
use tokio::time::Instant;

use super::connection::{Command, Connection, converted, has_code, unavailable};
use super::namespace::{Namespace, Prefix};
use super::probed::Probed;
use super::refusal::Refusal;
use super::script::{Call, Script};
use super::topology::Topology;
use crate::error::Error;
use crate::family::future::{Answer, BoxFuture};
use crate::family::shard::{Shard, Shards};

/// A client of one namespace, by which each family of counters sends its commands.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) topology: Topology,
    shards: Shards,
    /// The prefixes of keys, by shard.
    prefixes: Box<[Prefix]>,
    pub(super) refusal: Refusal,
    pub(super) probed: Probed,
}

impl Client {
    /// Creates a client that splits the namespace over this many shards, or over none.
    pub(crate) fn new(topology: Topology, namespace: &Namespace, shards: Option<Shards>) -> Self {
        let prefixes = match shards {
            None => [Prefix::whole(namespace)].into(),
            Some(shards) => shards.iter().map(|shard| Prefix::of(namespace, shard)).collect(),
        };
        Self {
            topology,
            shards: shards.unwrap_or(Shards::ONE),
            prefixes,
            refusal: Refusal::default(),
            probed: Probed::default(),
        }
    }

    pub(crate) const fn shards(&self) -> Shards {
        self.shards
    }

    /// Returns the prefix of the keys of a shard.
    pub(crate) fn prefix(&self, shard: Shard) -> &Prefix {
        &self.prefixes[shard.index()]
    }

    /// Returns the prefix of the keys of the shard that a name belongs to.
    pub(crate) fn prefix_of(&self, name: &str) -> &Prefix {
        self.prefix(self.shards.of(name))
    }

    pub(crate) fn connections(&self) -> u64 {
        self.topology.connections()
    }

    /// Polls the first of two futures that do the same, which uses a script, or the other one where the
    /// server refuses scripts.
    ///
    /// A future does nothing before it is polled, so the other one costs nothing.
    pub(crate) async fn scripted<T>(
        &self,
        by_script: impl Future<Output = Result<T, Error>>,
        without_scripts: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.refusal.runs_scripts(Instant::now()) {
            let answer = by_script.await;
            if !self.refusal.learn(&answer, Instant::now()) {
                return answer;
            }
        }
        without_scripts.await
    }

    pub(crate) async fn run<R: FromValue>(&self, script: &Script, call: Call) -> Result<R, Error> {
        let (first, args) = call.args(script);
        let answer = self.evaluate(script, &first, args).await?;
        match answer.convert() {
            Ok(answer) => Ok(answer),
            // What a script returns does not depend on the data, so this was no answer to it.
            Err(error) => Err(self.distrust(&first, error).await),
        }
    }

    fn evaluate<'a>(&'a self, script: &'a Script, first: &'a str, mut args: Vec<Value>) -> Answer<'a, Value> {
        Box::pin(async move {
            match self.ask("EVALSHA", first, &args).await {
                Err(error) if has_code(&error, "NOSCRIPT") => {
                    args[0] = script.source();
                    self.ask("EVAL", first, &args).await
                }
                answer => answer,
            }
        })
    }

    /// Replaces the connection that gave an answer which does not fit the command. What was sent may have been done.
    pub(super) fn distrust<'a>(&'a self, key: &'a str, error: FredError) -> BoxFuture<'a, Error> {
        Box::pin(async move {
            if let Ok(connection) = self.connection(key).await {
                connection.distrust();
            }
            unavailable(format!("the answer does not fit the command: {error}"))
        })
    }

    /// Sends one command to the server of this key.
    pub(crate) async fn call<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        args: Vec<Value>,
    ) -> Result<R, Error> {
        converted(self.ask(command, key, &args).await)
    }

    /// Does what [`call`](Self::call) does, and is compiled once: all that depends on the type of the answer comes
    /// after it.
    fn ask<'a>(&'a self, command: &'static str, key: &'a str, args: &'a [Value]) -> Answer<'a, Value> {
        Box::pin(async move {
            let send =
                |server: Arc<Connection>| async move { server.call(command, key, args.to_vec()).await };
            self.topology.send(key, send).await
        })
    }

    /// Sends several commands at once to the server of this key, and returns the answers in the same order.
    pub(crate) async fn call_all(&self, key: &str, calls: Vec<Command>) -> Result<Vec<Value>, Error> {
        self.call_each(key, calls).await?.into_iter().collect()
    }

    /// Sends several commands at once to the server of this key, and returns the answers in the same order;
    /// for a key that holds something else than the command expects, the error of the server.
    pub(crate) fn call_each<'a>(
        &'a self,
        key: &'a str,
        calls: Vec<Command>,
    ) -> Answer<'a, Vec<Result<Value, Error>>> {
        Box::pin(async move {
            let send = |server: Arc<Connection>| {
                let calls = calls.clone();
                async move { server.call_each(key, calls).await }
            };
            self.topology.send(key, send).await
        })
    }

    /// Returns the connection that commands for this key take.
    pub(crate) async fn connection(&self, key: &str) -> Result<Arc<Connection>, Error> {
        self.topology.connection(key).await
    }

    /// Returns the server of this key, for commands that have to stay with it.
    pub(crate) async fn server(&self, key: &str) -> Result<Arc<Connection>, Error> {
        self.topology.server(key).await
    }

    /// Takes note of what an answer says about which server has which key.
    pub(crate) fn learn<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        self.topology.learn(answer)
    }
}
