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
use crate::log::unwind::tell;
use client_handle::{ClientHandle, is_code};
use dialer::{Dialer, Link};
use queues::Queues;
use renewals::Renewals;

/// The connection to one server, or to the master that sentinels report.
///
/// It uses a client of fred for each connection, with settings that make it predictable: an attempt is one attempt and
/// ends in bounded time, and retries are made elsewhere. A task connects again whenever the connection breaks, hangs, or
/// is replaced because its server no longer accepts writes or answers nonsense.
pub(crate) struct Connection {
    /// The configuration of a new client; `None` when the client is the user's own.
    config: Option<Config>,
    link: Arc<Link>,
    /// The task that connects; `None` for a client of the user.
    dialer: Mutex<Option<AbortHandle>>,
    renewals: Renewals,
    pub(super) transactions: Queues,
    pub(crate) options: Options,
}

/// A command: its name and its arguments.
pub(crate) type Command = (&'static str, Vec<Value>);

/// The timeout of one command, from the call to the answer. It must be longer than the time after which the
/// client considers a silent server dead.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

const FIRST_CONNECTION: Duration = Duration::from_secs(1);

impl Connection {
    /// Starts to connect.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) fn open(config: Config) -> Result<Self, FredError> {
        let link = Arc::new(Link::default());
        let dialer = Dialer::start(config.clone(), Arc::clone(&link));
        Ok(Self::new(Some(config), link, Some(dialer)))
    }

    /// Wraps a client of the user.
    pub(crate) fn of(client: Client) -> Self {
        Self::new(None, Arc::new(Link::of(ClientHandle::of(client))), None)
    }

    fn new(config: Option<Config>, link: Arc<Link>, dialer: Option<AbortHandle>) -> Self {
        let options = Options { fail_fast: true, timeout: Some(TIMEOUT), ..Options::default() };
        let (renewals, transactions) = (Renewals::default(), Queues::default());
        Self { config, link, dialer: Mutex::new(dialer), renewals, transactions, options }
    }

    /// Waits for the connection, for at most a second, so that a service whose server is there does not start
    /// with failures.
    pub(crate) fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.wait(FIRST_CONNECTION))
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> u64 {
        self.link.connections()
    }

    /// Returns the identity of the connection: another one has another, and so has one that was made anew. What a server
    /// says of its process, such as a cursor, is good for one of them.
    pub(crate) fn session(&self) -> String {
        let client = self.link.client().ok();
        let id = client.as_ref().map_or("", |client| client.client.id());
        format!("{id}/{}", self.connections())
    }

    /// Sends one command; with a user's own client of a cluster, `key` decides which server it goes to.
    pub(crate) async fn call(
        &self,
        command: &'static str,
        key: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, Error> {
        let handle = self.handle_or_yield().await?;
        let answer = handle.call(&self.options, self::command(command, key), arguments).await;
        answer.map_err(|error| self.explain(&handle, error)).inspect(|_| handle.answered())
    }

    /// Sends several commands at once, and returns the answers in the same order; for a key that holds
    /// something else than the command expects, the error of the server.
    pub(crate) async fn call_each(
        &self,
        key: &str,
        calls: Vec<Command>,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        let (handle, asked) = (self.handle_or_yield().await?, calls.len());
        let calls = calls.into_iter().map(|(name, arguments)| (command(name, key), arguments)).collect();
        let answers = handle.call_each(&self.options, calls).await;
        let answers = answers.map_err(|error| self.explain(&handle, error))?;
        let each = |answer: Result<Value, FredError>| match answer {
            Err(error) if is_of_the_key(&error) => Ok(Err(explain(error))),
            answer => answer.map(Ok).map_err(|error| self.explain(&handle, error)),
        };
        let answers = answers.into_iter().map(each).collect::<Result<Vec<_>, _>>()?;
        if answers.len() != asked {
            return Err(unavailable("there are not as many answers as commands"));
        }
        handle.answered();
        Ok(answers)
    }

    /// Starts a connection that does not reconnect when it breaks, to the address of the one for other calls.
    pub(crate) async fn connect_once(&self) -> Result<ClientHandle, Error> {
        let client = self.handle_or_yield().await?;
        let config = self.link.config().unwrap_or_else(|| client.client.client_config());
        ClientHandle::open_once(config).map(|(handle, _)| handle).map_err(explain)
    }

    /// Returns the configuration that its client was made from.
    pub(crate) fn config(&self) -> Config {
        let of_the_client =
            || self.link.client().map(|client| client.client.client_config()).unwrap_or_default();
        self.config.clone().unwrap_or_else(of_the_client)
    }

    /// Replaces the connection, since its server answers what no server would: the answers may be those of other
    /// commands, or the peer may be something else.
    pub(crate) fn distrust(&self) {
        if let Ok(handle) = self.link.client() {
            self.renew(&handle, "the server answers nonsense");
        }
    }

    fn renew(&self, handle: &ClientHandle, reason: &'static str) {
        if !handle.has_ended() && self.config.is_some() && self.renewals.allow(Instant::now()) {
            handle.end_because(reason);
            tell(|| tracing::warn!(reason, "the connection to the store is being replaced"));
        }
    }

    /// Returns the current client. Starts the task that connects if it has ended with its runtime.
    fn handle(&self) -> Result<Arc<ClientHandle>, Error> {
        if let Some(config) = &self.config {
            let mut dialer = self.dialer.lock().expect("nothing panics under this lock");
            if dialer.as_ref().is_some_and(AbortHandle::is_finished) {
                *dialer = Some(Dialer::start(config.clone(), Arc::clone(&self.link)));
            }
        }
        self.link.client()
    }

    /// Returns the current client. Without one, other tasks run before the error is returned: a caller that tries again
    /// without a pause would otherwise keep a thread from the task that connects.
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
        if handle.hangs_after(&error) {
            handle.end_because("several calls in a row had no answer");
            tell(|| tracing::warn!("the connection to the store hangs and is being replaced"));
        } else if is_code(error.details(), "READONLY") {
            // A master that became a replica: the next connection finds the new one, by sentinel or by name.
            self.renew(handle, "the server is a replica");
        }
        let error = explain(error);
        match handle.latest_trouble() {
            Some(trouble) if *error.kind() == ErrorKind::Unavailable => error.caused_by(trouble),
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
        // fred's own implementation would print the password.
        f.debug_struct("Connection").field("session", &self.session()).finish_non_exhaustive()
    }
}

/// Returns what the server or the client said, for an error that was made here.
pub(crate) fn answer_of(error: &Error) -> Option<&str> {
    std::error::Error::source(error)?.downcast_ref::<FredError>().map(FredError::details)
}

/// Returns whether an error is an answer of the server that begins with this code.
pub(crate) fn has_code(error: &Error, word: &str) -> bool {
    answer_of(error).is_some_and(|answer| is_code(answer, word))
}

/// Returns a command for the server of a key, for a client that knows several servers.
pub(crate) fn command(name: &'static str, key: &str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Custom(redis_keyslot(key.as_bytes())), false)
}

pub(crate) fn unavailable(words: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unavailable).caused_by(FredError::new(FredKind::Unknown, words.into()))
}

pub(crate) fn explain(error: FredError) -> Error {
    let unreachable = match error.kind() {
        FredKind::IO
        | FredKind::Timeout
        | FredKind::Canceled
        | FredKind::Routing
        | FredKind::Backpressure => true,
        // This kind covers most servers' answers as well as what the client says itself.
        FredKind::Unknown => !is_answer(error.details()),
        _ => false,
    };
    let kind = if unreachable { ErrorKind::Unavailable } else { ErrorKind::Refused };
    Error::new(kind).caused_by(error)
}

/// Returns what the caller expects as the answer of the server.
pub(crate) fn converted<R: FromValue>(answer: Result<Value, Error>) -> Result<R, Error> {
    answer?.convert().map_err(explain)
}

/// Returns whether a server answered that a key holds something else than the command expects: another
/// command of the same pipeline may well succeed.
fn is_of_the_key(error: &FredError) -> bool {
    ["WRONGTYPE", "INVALIDOBJ"].iter().any(|code| is_code(error.details(), code))
}

/// Returns whether a text is an answer of a server: it begins with a code such as `ERR` or `READONLY`.
fn is_answer(words: &str) -> bool {
    let code = words.split(' ').next().unwrap_or_default();
    !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_not_what_the_client_could_not_send() {
        let kind = |words: &'static str| explain(FredError::new(FredKind::Unknown, words)).kind().clone();
        for words in ["ERR no", "READONLY You can't write against a read only replica.", "OOM"] {
            assert_eq!(kind(words), ErrorKind::Refused, "{words}");
        }
        for words in ["Failed to route command.", "Client is not initialized.", ""] {
            assert_eq!(kind(words), ErrorKind::Unavailable, "{words}");
        }
    }
}
