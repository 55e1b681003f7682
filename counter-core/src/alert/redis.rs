//! The document of alerts in Redis: a hash in the first shard. It is replaced now and then, so a transaction that watches it
//! does for servers with and without scripts.

use std::sync::Arc;

use fred::bytes::Bytes;
use fred::types::Value;

use super::{AlertDocument, AlertStore};
use crate::future::Answer;
use crate::redis::{Client, Queue, it_may_pass, retried, unavailable};
use crate::shard::Shard;
use crate::{Error, ErrorKind};

/// The document of one namespace.
#[derive(Debug)]
pub(crate) struct RedisAlerts {
    client: Arc<Client>,
    key: String,
}

impl RedisAlerts {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let key = format!("{}alerts", client.prefix(Shard::default()));
        Self { client, key }
    }

    async fn document(&self) -> Result<AlertDocument, Error> {
        let asked = vec![Value::from(&*self.key), "version".into(), "state".into()];
        let (version, content): (Option<String>, Option<Bytes>) =
            self.client.call("HMGET", &self.key, asked).await?;
        Ok(AlertDocument {
            version: self.version(version)?,
            content: content.map_or_else(Vec::new, |content| content.to_vec()),
            now: Some(self.client.time(&self.key).await?),
        })
    }

    fn version(&self, version: Option<String>) -> Result<u64, Error> {
        let malformed = |_| Error::new(ErrorKind::Malformed { key: self.key.clone() });
        version.map_or(Ok(0), |version| version.parse().map_err(malformed))
    }

    async fn exchange(&self, version: u64, content: &[u8]) -> Result<bool, Error> {
        let server = self.client.server(&self.key).await?;
        let exchanged = async {
            let transaction = server.watch_in(Queue::Calls, &self.key).await?;
            let asked = vec![Value::from(&*self.key), "version".into()];
            if self.version(transaction.call("HGET", asked).await?)? != version {
                transaction.abandon().await?;
                return Ok(None);
            }
            let written = vec![
                Value::from(&*self.key),
                "version".into(),
                (version + 1).to_string().into(),
                "state".into(),
                Bytes::copy_from_slice(content).into(),
            ];
            transaction.execute(vec![("HSET", written)]).await
        };
        match self.client.learn(exchanged.await)?.as_deref() {
            None => Ok(false),
            Some([None]) => Ok(true),
            Some([Some(refusal), ..]) => Err(Error::new(ErrorKind::Refused).caused_by(refusal.clone())),
            Some(_) => Err(unavailable("no answer to HSET")),
        }
    }
}

impl AlertStore for RedisAlerts {
    fn read(&self) -> Answer<'_, AlertDocument> {
        Box::pin(retried(it_may_pass, || self.document()))
    }

    fn replace<'a>(&'a self, version: u64, content: &'a [u8]) -> Answer<'a, bool> {
        // Not tried again: what was done is seen by whoever reads it next.
        Box::pin(self.exchange(version, content))
    }
}
