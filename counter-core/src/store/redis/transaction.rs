//! WATCH, MULTI and EXEC, for servers that refuse scripts.
//!
//! What is watched is watched by a connection. So a transaction has one of its own, which is used by
//! one at a time and never connects again by itself: after anything that goes wrong it is thrown away,
//! and with it whatever was under way.

use fred::interfaces::ClientLike;
use fred::types::{FromValue, Resp3Frame, Value};
use tokio::sync::MutexGuard;

use super::connection::{Command, Connection, command, explain, unavailable};
use super::link::Link;
use crate::Error;

/// A connection that watches a key.
pub(super) struct Transaction<'a> {
    /// Where the connection goes when all went well.
    place: MutexGuard<'a, Option<Link>>,
    link: Link,
    server: &'a Connection,
}

impl Connection {
    /// Watches a key: what is executed then is so only if nobody has changed it.
    pub(super) async fn watch(&self, key: &str) -> Result<Transaction<'_>, Error> {
        let transaction = self.begin().await?;
        let _: Value = transaction.call("WATCH", vec![key.into()]).await?;
        Ok(transaction)
    }

    /// Watches nothing: what is executed then is so at once, whatever others do.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, Error> {
        let mut place = self.exclusive.lock().await;
        // One that broke while it was not used would be noticed by its silence alone, seconds later.
        let link = match place.take() {
            Some(link) if !link.has_ended() => link,
            _ => self.connect_once().await?,
        };
        Ok(Transaction { place, link, server: self })
    }
}

impl Transaction<'_> {
    /// Sends one command before the transaction begins.
    pub(super) async fn call<R: FromValue>(
        &self,
        name: &'static str,
        arguments: Vec<Value>,
    ) -> Result<R, Error> {
        let client = self.link.client.with_options(&self.server.options);
        client.custom(command(name, ""), arguments).await.map_err(explain)
    }

    /// Executes the commands at once, and answers for each what the server had against it, if anything;
    /// `None` when the key was changed and nothing was done.
    pub(super) async fn execute(self, commands: Vec<Command>) -> Result<Option<Vec<Option<String>>>, Error> {
        let answers = self.exchange(commands).await?;
        Ok(answers.map(|answers| answers.iter().map(refusal).collect()))
    }

    /// As [`execute`](Self::execute), for the integer that each command answers, if it does, or for what
    /// the server had against it.
    pub(super) async fn execute_for_integers(
        self,
        commands: Vec<Command>,
    ) -> Result<Option<Vec<Result<Option<i64>, String>>>, Error> {
        let integer = |frame: &Resp3Frame| match (refusal(frame), frame) {
            (Some(words), _) => Err(words),
            (None, Resp3Frame::Number { data, .. }) => Ok(Some(*data)),
            (None, _) => Ok(None),
        };
        let answers = self.exchange(commands).await?;
        Ok(answers.map(|answers| answers.iter().map(integer).collect()))
    }

    async fn exchange(mut self, commands: Vec<Command>) -> Result<Option<Vec<Resp3Frame>>, Error> {
        let pipeline = self.link.client.pipeline();
        let with_options = pipeline.with_options(&self.server.options);
        for (name, arguments) in [("MULTI", Vec::new())].into_iter().chain(commands) {
            let queued: Result<(), _> = with_options.custom(command(name, ""), arguments).await;
            queued.map_err(explain)?;
        }
        let _: Vec<Value> = pipeline.all().await.map_err(explain)?;
        let client = self.link.client.with_options(&self.server.options);
        let frame = client.custom_raw(command("EXEC", ""), Vec::<Value>::new()).await.map_err(explain)?;
        let answers = match frame {
            Resp3Frame::Null => None,
            Resp3Frame::Array { data, .. } => Some(data),
            frame => {
                return Err(unavailable(refusal(&frame).unwrap_or_else(|| "no answer to EXEC".to_owned())));
            }
        };
        *self.place = Some(self.link);
        Ok(answers)
    }

    /// Ends without executing anything.
    pub(super) async fn abandon(mut self) -> Result<(), Error> {
        let _: Value = self.call("UNWATCH", Vec::new()).await?;
        *self.place = Some(self.link);
        Ok(())
    }
}

fn refusal(frame: &Resp3Frame) -> Option<String> {
    match frame {
        Resp3Frame::SimpleError { data, .. } => Some(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Some(String::from_utf8_lossy(data).into_owned()),
        _ => None,
    }
}
