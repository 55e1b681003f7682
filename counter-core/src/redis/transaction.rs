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
use super::connection::queues::{Exclusive, TransactionState};
use super::connection::{COMMAND_TIMEOUT, Command, Connection, command, error_message, explain, unavailable};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;

/// Number of commands sent before waiting for their replies. A slow server or a narrow link must only manage these within the
/// timeout, and not all commands of a batch: the next attempt would send just as many.
const MAX_QUEUED: usize = 128;

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
    pub(crate) fn begin_in(&self, queue: Queue) -> StoreFuture<'_, Transaction<'_>> {
        Box::pin(self.begin_in_queue(queue))
    }

    async fn begin_in_queue(&self, queue: Queue) -> Result<Transaction<'_>, Error> {
        // The timeout includes the wait for the lock, so that callers do not wait for the sum of all queued
        // transactions. A hanging connection is also closed in bounded time.
        let transaction = timeout(COMMAND_TIMEOUT, async {
            let queue = match queue {
                Queue::Upkeep => &self.transactions.upkeep,
                Queue::Calls => &self.transactions.calls,
            };
            let exclusive = queue.lock().await;
            let mut transaction = Transaction { exclusive, server: self };
            transaction.prepare_connection().await?;
            // From here on, replies may be pending if the caller is dropped.
            transaction.set(TransactionState::Watching);
            Ok(transaction)
        });
        transaction
            .await
            .unwrap_or_else(|_| Err(unavailable("timed out waiting for a transaction connection")))
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
        let reply = handle.call(&self.server.options, command(name, ""), arguments).await;
        explained(handle, reply)?.convert().map_err(|error| self.reject_reply(error))
    }

    /// Closes the connection because of a reply that does not match the command.
    pub(super) fn reject_reply(&self, error: impl Display) -> Error {
        if let Ok(handle) = self.handle() {
            handle.end();
        }
        unavailable(format!("unexpected reply to the command: {error}"))
    }

    /// Executes the commands atomically, and returns the server errors by command. Returns `None` if a
    /// watched key has been changed, in which case the commands are not executed.
    pub(crate) async fn execute(self, commands: Vec<Command>) -> Result<Option<Vec<Option<String>>>, Error> {
        let replies = self.exchange(commands).await?;
        Ok(replies.map(|replies| replies.iter().map(error_of).collect()))
    }

    /// Like [`execute`](Self::execute), but returns the integer replies, or the server errors, by command. For
    /// an array, e.g. the reply to `TIME`, this is the first element.
    pub(crate) async fn execute_for_integers(
        self,
        commands: Vec<Command>,
    ) -> Result<Option<Vec<Result<Option<i64>, String>>>, Error> {
        let integer = |frame: &Resp3Frame| match (error_of(frame), frame) {
            (Some(message), _) => Err(message),
            (None, Resp3Frame::Number { data, .. }) => Ok(Some(*data)),
            (None, Resp3Frame::Array { data, .. }) => Ok(data.first().and_then(|first| match first {
                Resp3Frame::BlobString { data, .. } => str::from_utf8(data).ok()?.parse().ok(),
                _ => None,
            })),
            (None, _) => Ok(None),
        };
        let replies = self.exchange(commands).await?;
        Ok(replies.map(|replies| replies.iter().map(integer).collect()))
    }

    fn exchange(self, commands: Vec<Command>) -> StoreFuture<'a, Option<Vec<Resp3Frame>>> {
        Box::pin(self.exchange_commands(commands))
    }

    async fn exchange_commands(mut self, commands: Vec<Command>) -> Result<Option<Vec<Resp3Frame>>, Error> {
        self.set(TransactionState::Queuing);
        // We need to wait for this reply in all transactions, because permissions can be revoked at any time:
        // if MULTI is rejected, commands sent along with it would be executed immediately, and only in part
        // if the connection breaks.
        let multi: Value = self.call("MULTI", Vec::new()).await.map_err(explain_rejected_multi)?;
        if !is_ok(&multi) {
            return Err(self.reject_reply("MULTI did not return OK"));
        }
        self.queue(commands).await?;
        let handle = self.handle()?;
        let reply = handle.call_raw(&self.server.options, command("EXEC", ""), Vec::new()).await;
        let replies = match explained(handle, reply)? {
            Resp3Frame::Null => None,
            Resp3Frame::Array { data, .. } => Some(data),
            frame => match error_of(&frame) {
                Some(message) => return Err(unavailable(message)),
                None => return Err(self.reject_reply("EXEC returned no array")),
            },
        };
        self.set(TransactionState::Idle);
        Ok(replies)
    }

    async fn queue(&self, commands: Vec<Command>) -> Result<(), Error> {
        let handle = self.handle()?;
        let mut commands = commands.into_iter().map(|(name, arguments)| (command(name, ""), arguments));
        while commands.len() > 0 {
            let next = commands.by_ref().take(MAX_QUEUED).collect();
            let replies = handle.call_each(&self.server.options, next).await;
            let replies = replies.and_then(|replies| replies.into_iter().collect::<Result<Vec<_>, _>>());
            if explained(handle, replies)?.iter().any(|reply| !matches!(reply, Value::Queued)) {
                return Err(self.reject_reply("a command of a transaction was not queued"));
            }
        }
        Ok(())
    }

    /// Ends the transaction without executing any commands.
    pub(crate) async fn abandon(mut self) -> Result<(), Error> {
        let _: Value = self.call("UNWATCH", Vec::new()).await?;
        self.set(TransactionState::Idle);
        Ok(())
    }

    /// Resets the state left over from an earlier transaction, or connects.
    async fn prepare_connection(&mut self) -> Result<(), Error> {
        if !self.try_reset().await {
            *self.exclusive = None;
        }
        if self.exclusive.is_none() {
            let handle = self.server.connect_once().await?;
            *self.exclusive =
                Some(Exclusive { handle, state: TransactionState::Idle, since: Instant::now() });
        }
        let handle = self.handle()?;
        explained(handle, handle.connected().await)
    }

    /// Resets the connection. Returns `false` if this fails, and the connection must be replaced.
    async fn try_reset(&mut self) -> bool {
        let Some(Exclusive { handle, state, since }) = &*self.exclusive else { return true };
        // Without this check, we would only notice by a timeout, seconds later, that an idle connection is
        // broken.
        if handle.has_ended() {
            return false;
        }
        if *state == TransactionState::Idle {
            return true;
        }
        // The connection may hang, and the callers that would detect this may have been dropped.
        if since.elapsed() >= COMMAND_TIMEOUT {
            return false;
        }
        if *state == TransactionState::Queuing {
            // This can fail if MULTI was not executed or DISCARD is not permitted, so only the next reply
            // counts.
            drop(self.call::<Value>("DISCARD", Vec::new()).await);
        }
        let ended: Result<Value, _> = self.call("UNWATCH", Vec::new()).await;
        let is_reset = ended.is_ok_and(|reply| is_ok(&reply));
        if is_reset {
            self.set(TransactionState::Idle);
        }
        is_reset
    }

    fn set(&mut self, state: TransactionState) {
        if let Some(exclusive) = &mut *self.exclusive {
            if exclusive.state == TransactionState::Idle {
                exclusive.since = Instant::now();
            }
            exclusive.state = state;
        }
    }

    fn handle(&self) -> Result<&ClientHandle, Error> {
        let exclusive = self.exclusive.as_ref();
        exclusive.map(|exclusive| &exclusive.handle).ok_or_else(|| unavailable("not connected"))
    }
}

/// Converts a client error into an [`Error`]. If the server did not reply, the connection is closed because
/// it can't be used any more.
fn explained<T>(handle: &ClientHandle, reply: Result<T, FredError>) -> Result<T, Error> {
    reply.map_err(|error| explain_and_close(handle, error))
}

fn explain_and_close(handle: &ClientHandle, error: FredError) -> Error {
    let error = explain(error);
    if *error.kind() != ErrorKind::Unavailable {
        return error;
    }
    handle.end();
    match handle.latest_error() {
        Some(last_error) => error.caused_by(last_error),
        None => error,
    }
}

/// Returns `true` if the reply is `OK`, but not `QUEUED`.
fn is_ok(reply: &Value) -> bool {
    reply.as_str().is_some_and(|reply| reply == "OK")
}

/// Converts the error of MULTI. If MULTI is not permitted, the error names scripts too, which are also
/// rejected.
fn explain_rejected_multi(error: Error) -> Error {
    match error_message(&error) {
        Some(message) if is_code(message, "NOPERM") || message.starts_with("ERR unknown command") => {
            let message = format!("neither scripts nor transactions (MULTI) are permitted: {message}");
            Error::new(ErrorKind::Rejected).caused_by(message)
        }
        _ => error,
    }
}

fn error_of(frame: &Resp3Frame) -> Option<String> {
    match frame {
        Resp3Frame::SimpleError { data, .. } => Some(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Some(String::from_utf8_lossy(data).into_owned()),
        _ => None,
    }
}
