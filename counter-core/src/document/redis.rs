//! Documents in Redis. These are hashes in the first shard, replaced by a script. If scripts are rejected, we
//! use a transaction that watches the key.

use std::sync::Arc;

use fred::bytes::Bytes;
use fred::types::Value;
use futures_util::future::try_join;

use super::store::{Document, DocumentStore};
use super::version::random;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::shard::Shard;
use crate::redis::{Call, Client, Queue, Script, is_transient, unavailable, with_retries};

/// The document store of a `RedisStore`: the documents in a namespace.
#[derive(Debug)]
pub(crate) struct RedisDocuments {
    client: Arc<Client>,
    replace: Script,
}

impl RedisDocuments {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, replace: Script::new(include_str!("redis/replace.lua")) }
    }

    fn key(&self, name: &str) -> String {
        format!("{}document:{name}", self.client.prefix(Shard::default()))
    }

    async fn document(&self, key: &str) -> Result<Document, Error> {
        let arguments = vec![Value::from(key), "version".into(), "content".into()];
        let found = self.client.call::<(Option<String>, Option<Bytes>)>("HMGET", key, arguments);
        // Pipelined, so that this only takes a single round trip.
        let ((version, content), now) = try_join(found, self.client.time(key)).await?;
        Ok(Document {
            version: number(key, version)?,
            content: content.map_or_else(Vec::new, |content| content.to_vec()),
            now: Some(now),
        })
    }

    async fn newer(&self, key: &str, version: u64) -> Result<Document, Error> {
        let found = self.client.call::<Option<String>>("HGET", key, vec![key.into(), "version".into()]);
        // Pipelined, so that this only takes a single round trip.
        let (found, now) = try_join(found, self.client.time(key)).await?;
        match number(key, found)? == version {
            true => Ok(Document { version, content: Vec::new(), now: Some(now) }),
            false => self.document(key).await,
        }
    }

    async fn by_script(&self, key: &str, version: u64, new: u64, content: &[u8]) -> Result<bool, Error> {
        let mut call = Call::new([key]);
        call.number(version);
        call.number(new);
        call.push(content);
        let replaced: u64 = self.client.run(&self.replace, call).await?;
        Ok(replaced == 1)
    }

    async fn without_scripts(
        &self,
        key: &str,
        version: u64,
        new: u64,
        content: &[u8],
    ) -> Result<bool, Error> {
        let server = self.client.server(key).await?;
        let exchanged = async {
            let transaction = server.watch_in(Queue::Calls, key).await?;
            let arguments = vec![Value::from(key), "version".into()];
            if number(key, transaction.call("HGET", arguments).await?)? != version {
                transaction.abandon().await?;
                return Ok(None);
            }
            let written = vec![
                Value::from(key),
                "version".into(),
                new.to_string().into(),
                "content".into(),
                Bytes::copy_from_slice(content).into(),
            ];
            transaction.execute(vec![("HSET", written)]).await
        };
        match self.client.learn(exchanged.await)?.as_deref() {
            None => Ok(false),
            Some([None]) => Ok(true),
            Some([Some(error), ..]) => Err(Error::new(ErrorKind::Rejected).caused_by(error.clone())),
            Some(_) => Err(unavailable("missing reply to HSET")),
        }
    }
}

impl DocumentStore for RedisDocuments {
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            let key = self.key(name);
            with_retries(is_transient, || self.document(&key)).await
        })
    }

    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            let key = self.key(name);
            with_retries(is_transient, || self.newer(&key, version)).await
        })
    }

    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>> {
        // We can't retry this. If the outcome is unknown, the caller needs to read the document.
        Box::pin(async move {
            let key = self.key(name);
            let new = random();
            let by_script = self.by_script(&key, version, new, content);
            let without_scripts = self.without_scripts(&key, version, new, content);
            Ok(self.client.scripted(by_script, without_scripts).await?.then_some(new))
        })
    }
}

fn number(key: &str, version: Option<String>) -> Result<u64, Error> {
    let malformed = |_| Error::new(ErrorKind::Malformed { key: key.to_owned() });
    version.map_or(Ok(0), |version| version.parse().map_err(malformed))
}
