//! WATCH, MULTI and EXEC, for servers that refuse scripts.
//!
//! Keys are watched by a connection. So transactions have their own connections, each used by one transaction
//! at a time. These never reconnect by themselves: after an error they are dropped, and with them whatever
//! was under way. There are two for each server, however many callers there are: one for batches and
//! cleaning, one for all other calls.
//!
//! A caller may be dropped at any await. So the connection is kept in its queue and not in the caller's
//! future, along with a note of what was begun: the next transaction ends that first.

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

/// The queue that decides which transactions wait for one another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    /// Batches and cleaning.
    Upkeep,
    /// Calls that a request of the application may wait for.
    Calls,
}

/// A transaction that has its connection to itself.
pub(crate) struct Transaction<'a> {
    exclusive: MutexGuard<'a, Option<Exclusive>>,
    server: &'a Connection,
}

impl Connection {
    /// Watches a key: the transaction is only executed if no other client changes it.
    pub(crate) async fn watch(&self, key: &str) -> Result<Transaction<'_>, Error> {
        self.watch_in(Queue::Upkeep, key).await
    }

    /// Does what [`watch`](Self::watch) does, in this queue.
    pub(crate) async fn watch_in(&self, queue: Queue, key: &str) -> Result<Transaction<'_>, Error> {
        let mut transaction = self.begin_in(queue).await?;
        transaction.watch(key).await?;
        Ok(transaction)
    }

    /// Watches nothing: the transaction is executed whatever other clients do.
    pub(crate) fn begin_in(&self, queue: Queue) -> Answer<'_, Transaction<'_>> {
        Box::pin(self.begun_in(queue))
    }

    async fn begun_in(&self, queue: Queue) -> Result<Transaction<'_>, Error> {
        // A connection that hangs ends in bounded time. Transactions behind it do not wait for all that are
        // before them.
        let begun = timeout(TIMEOUT, async {
            let queue = match queue {
                Queue::Upkeep => &self.transactions.upkeep,
                Queue::Calls => &self.transactions.calls,
            };
            let exclusive = queue.lock().await;
            let mut transaction = Transaction { exclusive, server: self };
            transaction.make_ready().await?;
            // From here on, answers may be under way, which a caller that is dropped leaves behind.
            transaction.set(Begun::Watch);
            Ok(transaction)
        });
        begun.await.unwrap_or_else(|_| Err(unavailable("there was no connection for a transaction in time")))
    }
}

impl<'a> Transaction<'a> {
    /// Watches one more key.
    pub(crate) async fn watch(&mut self, key: &str) -> Result<(), Error> {
        let _: Value = self.call("WATCH", vec![key.into()]).await?;
        Ok(())
    }

    /// Sends one command before the transaction begins.
    pub(crate) async fn call<R: FromValue>(
        &self,
        name: &'static str,
        arguments: Vec<Value>,
    ) -> Result<R, Error> {
        let handle = self.handle()?;
        let answer = handle.call(&self.server.options, command(name, ""), arguments).await;
        judged(handle, answer)?.convert().map_err(|error| self.distrust(error))
    }

    /// Ends the connection, which gave an answer that does not fit the command.
    pub(super) fn distrust(&self, error: impl Display) -> Error {
        if let Ok(handle) = self.handle() {
            handle.end();
        }
        unavailable(format!("the answer does not fit the command: {error}"))
    }

    /// Executes the commands at once, and returns for each the error of the server, if any; `None` when a
    /// watched key was changed and nothing was done.
    pub(crate) async fn execute(self, commands: Vec<Command>) -> Result<Option<Vec<Option<String>>>, Error> {
        let answers = self.exchange(commands).await?;
        Ok(answers.map(|answers| answers.iter().map(refusal).collect()))
    }

    /// Does what [`execute`](Self::execute) does, and returns for each command its integer, if it returns
    /// one, or the error of the server.
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
        // The answer is awaited, and in each transaction, since rights may be revoked at any time: commands
        // sent along with a MULTI that is refused would be executed at once, and only in part if the
        // connection breaks.
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

    /// Ends without executing anything.
    pub(crate) async fn abandon(mut self) -> Result<(), Error> {
        let _: Value = self.call("UNWATCH", Vec::new()).await?;
        self.set(Begun::Nothing);
        Ok(())
    }

    /// Ends what an earlier transaction left behind, or connects.
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

    /// Returns whether there is a connection with nothing under way on it.
    async fn settles(&mut self) -> bool {
        let Some(Exclusive { handle, begun, since }) = &*self.exclusive else { return true };
        // A connection that broke while it was idle would only be noticed by its silence, seconds later.
        if handle.has_ended() {
            return false;
        }
        if *begun == Begun::Nothing {
            return true;
        }
        // It may hang, and the callers that check whether it does may be dropped before they know.
        if since.elapsed() >= TIMEOUT {
            return false;
        }
        if *begun == Begun::Multi {
            // Where nothing was queued, or this is not permitted, the next answer says more.
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

/// Explains the error of an answer. A connection whose answer did not come is of no use any more.
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

/// True if the answer is `OK`, and not `QUEUED`.
fn is_ok(answer: &Value) -> bool {
    answer.as_str().is_some_and(|answer| answer == "OK")
}

/// Explains a MULTI that is refused, where scripts are as well.
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
