mod address;
pub(super) mod client_handle;
mod dialer;
mod renewals;
pub(super) mod queues;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, Options};
use fred::types::{ClusterHash, CustomCommand, FromValue, Value};
use fred::util::redis_keyslot;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::family::future::BoxFuture;
use crate::log::unwind::emit;
use client_handle::{ClientHandle, is_code};
use dialer::{Dialer, Link};
use queues::Queues;
use renewals::Renewals;

/// The connection to a server, or to the master reported by sentinels.
///
/// We use a new fred client for each connection, with settings that make it predictable: there is one attempt
/// to connect, in bounded time, and retries are made by this crate. A task will reconnect if the connection
/// breaks, hangs, or is being replaced, e.g. because the server does not accept writes any more or sends
/// invalid replies.
pub(crate) struct Connection {
    /// The configuration for new clients. `None` if the client has been created by the user.
    config: Option<Config>,
    link: Arc<Link>,
    /// The task that connects. `None` if the client has been created by the user.
    dialer: Mutex<Option<AbortHandle>>,
    renewals: Renewals,
    pub(super) transactions: Queues,
    pub(crate) options: Options,
}

/// A command name and the arguments.
pub(crate) type Command = (&'static str, Vec<Value>);

/// Error codes for a key that holds the wrong type for the command.
const KEY_CODES: [&str; 2] = ["WRONGTYPE", "INVALIDOBJ"];

/// The timeout for a command, from the call to the reply. This must be longer than the time after which the
/// client considers an unresponsive server dead.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

const FIRST_CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

impl Connection {
    /// Starts to connect.
    ///
    /// # Panics
    /// Panics if called from outside of a Tokio runtime.
    pub(crate) fn open(config: Config) -> Result<Self, FredError> {
        let link = Arc::new(Link::default());
        let dialer = Dialer::start(config.clone(), Arc::clone(&link));
        Ok(Self::new(Some(config), link, Some(dialer)))
    }

    /// Wraps a client created by the user.
    pub(crate) fn of(client: Client) -> Self {
        Self::new(None, Arc::new(Link::of(ClientHandle::of(client))), None)
    }

    fn new(config: Option<Config>, link: Arc<Link>, dialer: Option<AbortHandle>) -> Self {
        let options = Options { fail_fast: true, timeout: Some(COMMAND_TIMEOUT), ..Options::default() };
        let (renewals, transactions) = (Renewals::default(), Queues::default());
        Self { config, link, dialer: Mutex::new(dialer), renewals, transactions, options }
    }

    /// Waits for the connection for a second at most, so that a service should not start with failures if the
    /// server is reachable.
    pub(crate) fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.wait(FIRST_CONNECTION_TIMEOUT))
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> u64 {
        self.link.connections()
    }

    /// Returns an identifier for the current connection. It will change if the client reconnects: state of
    /// the server process, e.g. a cursor, should only be used with the same session.
    pub(crate) fn session(&self) -> String {
        let client = self.link.client().ok();
        let id = client.as_ref().map_or("", |client| client.client.id());
        format!("{id}/{}", self.connections())
    }

    /// Sends a command. If the client is a cluster client created by the user, it uses `key` to choose the
    /// server.
    pub(crate) async fn call(
        &self,
        command: &'static str,
        key: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, Error> {
        let handle = self.handle_or_yield().await?;
        let reply = handle.call(&self.options, self::command(command, key), arguments).await;
        reply.map_err(|error| self.explain(&handle, error)).inspect(|_| handle.replied())
    }

    /// Sends commands in a pipeline, and returns the replies in the same order. If a key holds the wrong type
    /// for a command, the server error is returned in place of the reply.
    pub(crate) async fn call_each(
        &self,
        key: &str,
        calls: Vec<Command>,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        let (handle, expected) = (self.handle_or_yield().await?, calls.len());
        let calls = calls.into_iter().map(|(name, arguments)| (command(name, key), arguments)).collect();
        let replies = handle.call_each(&self.options, calls).await;
        let replies = replies.map_err(|error| self.explain(&handle, error))?;
        let each = |reply: Result<Value, FredError>| match reply {
            Err(error) if is_key_error(&error) => Ok(Err(explain(error))),
            reply => reply.map(Ok).map_err(|error| self.explain(&handle, error)),
        };
        let replies = replies.into_iter().map(each).collect::<Result<Vec<_>, _>>()?;
        if replies.len() != expected {
            return Err(unavailable("the number of replies does not match the number of commands"));
        }
        handle.replied();
        Ok(replies)
    }

    /// Opens a connection to the same address as the current connection. It will not reconnect if it breaks.
    pub(crate) async fn connect_once(&self) -> Result<ClientHandle, Error> {
        let client = self.handle_or_yield().await?;
        let config = self.link.config().unwrap_or_else(|| client.client.client_config());
        ClientHandle::open_once(config).map(|(handle, _)| handle).map_err(explain)
    }

    /// Returns the configuration used to create the client.
    pub(crate) fn config(&self) -> Config {
        let client_config =
            || self.link.client().map(|client| client.client.client_config()).unwrap_or_default();
        self.config.clone().unwrap_or_else(client_config)
    }

    /// Replaces the connection because of an invalid reply: replies may have been assigned to the wrong
    /// commands, or the peer may not be a Redis server.
    pub(crate) fn reject_reply(&self) {
        if let Ok(handle) = self.link.client() {
            self.renew(&handle, "the server sent an invalid reply");
        }
    }

    fn renew(&self, handle: &ClientHandle, reason: &'static str) {
        if !handle.has_ended() && self.config.is_some() && self.renewals.allow(Instant::now()) {
            handle.end_with_reason(reason);
            emit(|| tracing::warn!(reason, "the connection to the store is being replaced"));
        }
    }

    /// Returns the current client. This restarts the task that connects if it has ended with its runtime.
    fn handle(&self) -> Result<Arc<ClientHandle>, Error> {
        if let Some(config) = &self.config {
            let mut dialer = self.dialer.lock().expect("the lock is never poisoned");
            if dialer.as_ref().is_some_and(AbortHandle::is_finished) {
                *dialer = Some(Dialer::start(config.clone(), Arc::clone(&self.link)));
            }
        }
        self.link.client()
    }

    /// Returns the current client. If it is not connected, this yields to other tasks and then returns the
    /// error: a caller that retries in a tight loop would otherwise starve the task that connects.
    async fn handle_or_yield(&self) -> Result<Arc<ClientHandle>, Error> {
        match self.handle() {
            Ok(handle) => Ok(handle),
            Err(error) => {
                yield_now().await;
                Err(error)
            }
        }
    }

    fn explain(&self, handle: &ClientHandle, error: FredError) -> Error {
        if handle.is_unresponsive_after(&error) {
            handle.end_with_reason("too many consecutive timeouts");
            emit(|| tracing::warn!("the connection to the store hangs and will be replaced"));
        } else if is_code(error.details(), "READONLY") {
            // The master has been demoted to a replica. The next connection will find the new master by
            // sentinel or by name.
            self.renew(handle, "the server is a replica");
        }
        let error = explain(error);
        match handle.latest_error() {
            Some(last_error) if *error.kind() == ErrorKind::Unavailable => error.caused_by(last_error),
            _ => error,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(dialer) = self.dialer.get_mut().ok().and_then(Option::take) {
            dialer.abort();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The fred implementation would print the password.
        f.debug_struct("Connection").field("session", &self.session()).finish_non_exhaustive()
    }
}

/// Returns the message from the server or the client if this error has been created by [`explain`].
pub(crate) fn error_message(error: &Error) -> Option<&str> {
    std::error::Error::source(error)?.downcast_ref::<FredError>().map(FredError::details)
}

/// Returns `true` if this error is a server reply with the given error code.
pub(crate) fn has_code(error: &Error, code: &str) -> bool {
    error_message(error).is_some_and(|reply| is_code(reply, code))
}

/// Creates a command. Cluster clients will route it to the server for this key.
pub(crate) fn command(name: &'static str, key: &str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Custom(redis_keyslot(key.as_bytes())), false)
}

pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unavailable).caused_by(FredError::new(FredKind::Unknown, message.into()))
}

pub(crate) fn explain(error: FredError) -> Error {
    let unreachable = match error.kind() {
        FredKind::IO
        | FredKind::Timeout
        | FredKind::Canceled
        | FredKind::Routing
        | FredKind::Backpressure => true,
        // Used for most server errors, but also for errors from the client.
        FredKind::Unknown => !is_server_error(error.details()),
        _ => false,
    };
    let kind = if unreachable { ErrorKind::Unavailable } else { ErrorKind::Rejected };
    Error::new(kind).caused_by(error)
}

/// Converts a server reply into the type that the caller expects.
pub(crate) fn convert_reply<R: FromValue>(reply: Result<Value, Error>) -> Result<R, Error> {
    reply?.convert().map_err(explain)
}

/// Returns `true` if the key holds the wrong type for the command. Other commands in the pipeline may still
/// succeed.
fn is_key_error(error: &FredError) -> bool {
    is_key_message(error.details())
}

/// Returns `true` if an error says that a key holds the wrong type for the command. The code is not always the
/// first word: some servers write `ERR WRONGTYPE …`.
pub(super) fn is_key_message(message: &str) -> bool {
    KEY_CODES.iter().any(|code| message.contains(code))
}

/// Returns `true` if a message is a server error: they start with a code such as `ERR` or `READONLY`.
fn is_server_error(message: &str) -> bool {
    let code = message.split(' ').next().unwrap_or_default();
    !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_errors_are_distinguished_from_client_errors() {
        let kind = |message: &'static str| explain(FredError::new(FredKind::Unknown, message)).kind().clone();
        for message in ["ERR no", "READONLY You can't write against a read only replica.", "OOM"] {
            assert_eq!(kind(message), ErrorKind::Rejected, "{message}");
        }
        for message in ["Failed to route command.", "Client is not initialized.", ""] {
            assert_eq!(kind(message), ErrorKind::Unavailable, "{message}");
        }
    }
}
