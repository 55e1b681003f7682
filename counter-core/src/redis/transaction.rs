//! WATCH, MULTI and EXEC, for servers that reject scripts.
//!
//! Redis watches keys per connection, so transactions use dedicated connections, with a single transaction at
//! a time. These never reconnect: on error they are dropped, including any pending transaction. We open two
//! per server, regardless of the number of callers: one for batches and cleanup, one for all other calls.
//!
//! A caller can be dropped at any await, so we store the connection in the queue instead of the future of the
//! caller, along with the transaction state. The next transaction will then reset the connection.

use std::fmt::Display;

use fred::error::Error as FredError;
use fred::types::{FromValue, Resp3Frame, Value};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use super::connection::client_handle::{ClientHandle, is_code};
use super::connection::queues::{Begun, Exclusive};
use super::connection::{Command, Connection, TIMEOUT, answer_of, command, explain, unavailable};
use crate::error::{Error, ErrorKind};
use crate::family::future::Answer;

/// The queue for a transaction. Transactions in the same queue wait for one another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    /// Batches and cleanup.
    Upkeep,
    /// Calls that application requests might be waiting for.
    Calls,
}

/// A transaction with exclusive use of the connection.
pub(crate) struct Transaction<'a> {
    exclusive: MutexGuard<'a, Option<Exclusive>>,
    server: &'a Connection,
}

impl Connection {
    /// Watches a key: the transaction will only be executed if other clients do not change the key.
    pub(crate) async fn watch(&self, key: &str) -> Result<Transaction<'_>, Error> {
        self.watch_in(Queue::Upkeep, key).await
    }

    /// Like [`watch`](Self::watch), but uses the given queue.
    pub(crate) async fn watch_in(&self, queue: Queue, key: &str) -> Result<Transaction<'_>, Error> {
        let mut transaction = self.begin_in(queue).await?;
        transaction.watch(key).await?;
        Ok(transaction)
    }

    /// Starts a transaction that does not watch keys: it will be executed regardless of other clients.
    pub(crate) fn begin_in(&self, queue: Queue) -> Answer<'_, Transaction<'_>> {
        Box::pin(self.begun_in(queue))
    }

    async fn begun_in(&self, queue: Queue) -> Result<Transaction<'_>, Error> {
        // The timeout includes the wait for the lock, so that callers do not wait for the sum of all queued
        // transactions. A hanging connection is also closed in bounded time.
        let begun = timeout(TIMEOUT, async {
            let queue = match queue {
                Queue::Upkeep => &self.transactions.upkeep,
                Queue::Calls => &self.transactions.calls,
            };
            let exclusive = queue.lock().await;
            let mut transaction = Transaction { exclusive, server: self };
            transaction.make_ready().await?;
            // From here on, replies may be pending if the caller is dropped.
            transaction.set(Begun::Watch);
            Ok(transaction)
        });
        begun.await.unwrap_or_else(|_| Err(unavailable("there was no connection for a transaction in time")))
    }
}

impl<'a> Transaction<'a> {
    /// Watches an additional key.
    pub(crate) async fn watch(&mut self, key: &str) -> Result<(), Error> {
        let _: Value = self.call("WATCH", vec![key.into()]).await?;
        Ok(())
    }

    /// Sends a command. This must be called before the transaction is executed.
    pub(crate) async fn call<R: FromValue>(
        &self,
        name: &'static str,
        arguments: Vec<Value>,
    ) -> Result<R, Error> {
        let handle = self.handle()?;
        let answer = handle.call(&self.server.options, command(name, ""), arguments).await;
        judged(handle, answer)?.convert().map_err(|error| self.distrust(error))
    }

    /// Closes the connection because of a reply that does not match the command.
    pub(super) fn distrust(&self, error: impl Display) -> Error {
        if let Ok(handle) = self.handle() {
            handle.end();
        }
        unavailable(format!("the answer does not fit the command: {error}"))
    }

    /// Executes the commands atomically, and returns the server errors by command. Returns `None` if a
    /// watched key has been changed, in which case the commands are not executed.
    pub(crate) async fn execute(self, commands: Vec<Command>) -> Result<Option<Vec<Option<String>>>, Error> {
        let answers = self.exchange(commands).await?;
        Ok(answers.map(|answers| answers.iter().map(refusal).collect()))
    }

    /// Like [`execute`](Self::execute), but returns the integer replies, or the server errors, by command.
    pub(crate) async fn execute_for_integers(
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

    fn exchange(self, commands: Vec<Command>) -> Answer<'a, Option<Vec<Resp3Frame>>> {
        Box::pin(self.exchanged(commands))
    }

    async fn exchanged(mut self, commands: Vec<Command>) -> Result<Option<Vec<Resp3Frame>>, Error> {
        self.set(Begun::Multi);
        // We need to wait for this reply in all transactions, because permissions can be revoked at any time:
        // if MULTI is rejected, commands sent along with it would be executed immediately, and only in part
        // if the connection breaks.
        let multi: Value = self.call("MULTI", Vec::new()).await.map_err(no_transactions)?;
        if !is_ok(&multi) {
            return Err(self.distrust("MULTI did not return OK"));
        }
        if !commands.is_empty() {
            self.queue(commands).await?;
        }
        let handle = self.handle()?;
        let answer = handle.call_raw(&self.server.options, command("EXEC", ""), Vec::new()).await;
        let answers = match judged(handle, answer)? {
            Resp3Frame::Null => None,
            Resp3Frame::Array { data, .. } => Some(data),
            frame => match refusal(&frame) {
                Some(words) => return Err(unavailable(words)),
                None => return Err(self.distrust("EXEC returned no array")),
            },
        };
        self.set(Begun::Nothing);
        Ok(answers)
    }

    async fn queue(&self, commands: Vec<Command>) -> Result<(), Error> {
        let handle = self.handle()?;
        let commands = commands.into_iter().map(|(name, arguments)| (command(name, ""), arguments)).collect();
        let answers = handle.call_each(&self.server.options, commands).await;
        let answers = answers.and_then(|answers| answers.into_iter().collect::<Result<Vec<_>, _>>());
        let answers = judged(handle, answers)?;
        if answers.iter().all(|answer| matches!(answer, Value::Queued)) {
            return Ok(());
        }
        Err(self.distrust("a command of a transaction was not queued"))
    }

    /// Ends the transaction without executing any commands.
    pub(crate) async fn abandon(mut self) -> Result<(), Error> {
        let _: Value = self.call("UNWATCH", Vec::new()).await?;
        self.set(Begun::Nothing);
        Ok(())
    }

    /// Resets the state left over from an earlier transaction, or connects.
    async fn make_ready(&mut self) -> Result<(), Error> {
        if !self.settles().await {
            *self.exclusive = None;
        }
        if self.exclusive.is_none() {
            let handle = self.server.connect_once().await?;
            *self.exclusive = Some(Exclusive { handle, begun: Begun::Nothing, since: Instant::now() });
        }
        let handle = self.handle()?;
        judged(handle, handle.connected().await)
    }

    /// Resets the connection. Returns `false` if this fails, and the connection must be replaced.
    async fn settles(&mut self) -> bool {
        let Some(Exclusive { handle, begun, since }) = &*self.exclusive else { return true };
        // Without this check, we would only notice by a timeout, seconds later, that an idle connection is
        // broken.
        if handle.has_ended() {
            return false;
        }
        if *begun == Begun::Nothing {
            return true;
        }
        // The connection may hang, and the callers that would detect this may have been dropped.
        if since.elapsed() >= TIMEOUT {
            return false;
        }
        if *begun == Begun::Multi {
            // This can fail if MULTI was not executed or DISCARD is not permitted, so only the next reply
            // counts.
            drop(self.call::<Value>("DISCARD", Vec::new()).await);
        }
        let ended: Result<Value, _> = self.call("UNWATCH", Vec::new()).await;
        let settled = ended.is_ok_and(|answer| is_ok(&answer));
        if settled {
            self.set(Begun::Nothing);
        }
        settled
    }

    fn set(&mut self, begun: Begun) {
        if let Some(exclusive) = &mut *self.exclusive {
            if exclusive.begun == Begun::Nothing {
                exclusive.since = Instant::now();
            }
            exclusive.begun = begun;
        }
    }

    fn handle(&self) -> Result<&ClientHandle, Error> {
        let exclusive = self.exclusive.as_ref();
        exclusive.map(|exclusive| &exclusive.handle).ok_or_else(|| unavailable("there is no connection"))
    }
}

/// Explains the error of a reply. If the reply is missing, the connection is closed because it can't be used
/// any more.
fn judged<T>(handle: &ClientHandle, answer: Result<T, FredError>) -> Result<T, Error> {
    answer.map_err(|error| judge(handle, error))
}

fn judge(handle: &ClientHandle, error: FredError) -> Error {
    let error = explain(error);
    if *error.kind() != ErrorKind::Unavailable {
        return error;
    }
    handle.end();
    match handle.latest_trouble() {
        Some(trouble) => error.caused_by(trouble),
        None => error,
    }
}

/// Returns `true` if the reply is `OK`, but not `QUEUED`.
fn is_ok(answer: &Value) -> bool {
    answer.as_str().is_some_and(|answer| answer == "OK")
}

/// Explains why MULTI is rejected. Transactions are only used if scripts are rejected as well.
fn no_transactions(error: Error) -> Error {
    match answer_of(&error) {
        Some(words) if is_code(words, "NOPERM") || words.starts_with("ERR unknown command") => {
            let words = format!("neither scripts nor transactions (MULTI) are permitted: {words}");
            Error::new(ErrorKind::Refused).caused_by(words)
        }
        _ => error,
    }
}

fn refusal(frame: &Resp3Frame) -> Option<String> {
    match frame {
        Resp3Frame::SimpleError { data, .. } => Some(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Some(String::from_utf8_lossy(data).into_owned()),
        _ => None,
    }
}
