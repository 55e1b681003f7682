use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, Server, TcpConfig, UnresponsiveConfig,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, FromValue, Value};
use fred::util::redis_keyslot;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::{Error, ErrorKind};

/// The connection to one server, or to the master that sentinels tell of.
///
/// It is a client of fred, with the settings that keep its promises few and true: an attempt is an
/// attempt, it ends in bounded time, and trying again is our own affair. A client whose task has ended
/// or hangs, or whose server takes no writes any more, is replaced by a new one.
pub(super) struct Connection {
    /// What a new client is made of; nothing when the client is the user's own.
    config: Option<Config>,
    link: Mutex<Arc<Link>>,
    /// For one transaction at a time.
    pub(super) exclusive: tokio::sync::Mutex<Option<Link>>,
    pub(super) options: Options,
    /// Connections made by clients that were replaced.
    connections: AtomicU64,
}

/// A client.
pub(super) struct Link {
    pub(super) client: Client,
    /// Why connecting fails is told nowhere else: commands only say that there is no connection.
    troubles: Mutex<broadcast::Receiver<(FredError, Option<Server>)>>,
    /// Those that were made since this was last looked at, and those before.
    connected: Mutex<(broadcast::Receiver<Server>, u64)>,
    /// The task of a client that was made here.
    task: Option<ConnectHandle>,
    /// How many calls in a row had no answer.
    unanswered: AtomicU32,
}

/// For one command, from the call to the answer. It must be longer than the time after which the
/// client takes a silent server for dead.
const TIMEOUT: Duration = Duration::from_secs(5);

/// After so many calls in a row without an answer the client itself is taken for dead.
const UNANSWERED: u32 = 3;

const FIRST_CONNECTION: Duration = Duration::from_secs(1);

impl Connection {
    /// Begins to connect.
    pub(super) fn open(mut config: Config) -> Result<Self, FredError> {
        // Otherwise a server that is away at the start would be given up.
        config.fail_fast = false;
        let link = Link::open(&config)?;
        Ok(Self::new(Some(config), link))
    }

    /// Uses a client of the user's own.
    pub(super) fn of(client: Client) -> Self {
        Self::new(None, Link::new(client, None))
    }

    fn new(config: Option<Config>, link: Link) -> Self {
        let options = Options { fail_fast: true, timeout: Some(TIMEOUT), ..Options::default() };
        Self {
            config,
            link: Mutex::new(Arc::new(link)),
            exclusive: tokio::sync::Mutex::default(),
            options,
            connections: AtomicU64::new(0),
        }
    }

    /// Waits for the connection, a second at most, so that a service whose server is there does not
    /// begin with failures.
    pub(super) async fn wait(&self) {
        let client = self.link().client.clone();
        drop(timeout(FIRST_CONNECTION, client.wait_for_connect()).await);
    }

    /// How many connections were made.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed) + self.link().connections()
    }

    /// Sends one command; `key` says which server of a cluster a user's own client sends it to.
    pub(super) async fn call<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        arguments: Vec<Value>,
    ) -> Result<R, Error> {
        let link = self.link();
        let answer =
            link.client.with_options(&self.options).custom(self::command(command, key), arguments).await;
        answer.map_err(|error| self.explain(&link, error)).inspect(|_| link.answered())
    }

    /// Sends several commands at once, for answers in the same order.
    pub(super) async fn call_all<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        calls: Vec<Vec<Value>>,
    ) -> Result<Vec<R>, Error> {
        let link = self.link();
        let pipeline = link.client.pipeline();
        let with_options = pipeline.with_options(&self.options);
        for arguments in calls {
            let queued: Result<(), _> = with_options.custom(self::command(command, key), arguments).await;
            queued.map_err(|error| self.explain(&link, error))?;
        }
        let answers = pipeline.all().await;
        answers.map_err(|error| self.explain(&link, error)).inspect(|_| link.answered())
    }

    /// A connection that is not made again when it breaks.
    pub(super) async fn connect_once(&self) -> Result<Link, Error> {
        let mut config = self.config.clone().unwrap_or_else(|| self.link().client.client_config());
        config.fail_fast = true;
        let mut link = Link::open_by(&config, None).map_err(explain)?;
        match timeout(TIMEOUT, link.client.init()).await {
            Ok(connected) => link.task = Some(connected.map_err(explain)?),
            Err(_) => return Err(unavailable("no connection for a transaction in time")),
        }
        Ok(link)
    }

    /// The client of the moment, a new one if the task of the last has ended.
    fn link(&self) -> Arc<Link> {
        let link = Arc::clone(&self.lock());
        if link.has_ended() {
            self.replace(&link);
            return Arc::clone(&self.lock());
        }
        link
    }

    fn explain(&self, link: &Arc<Link>, error: FredError) -> Error {
        if link.is_useless_after(&error) {
            self.replace(link);
        }
        let error = explain(error);
        match link.latest_trouble() {
            Some(trouble) if *error.kind() == ErrorKind::Unavailable => error.caused_by(trouble),
            _ => error,
        }
    }

    fn replace(&self, old: &Arc<Link>) {
        let Some(config) = &self.config else { return };
        let mut link = self.lock();
        // Somebody else may have done it.
        if !Arc::ptr_eq(&link, old) {
            return;
        }
        match Link::open(config) {
            Ok(new) => {
                self.connections.fetch_add(link.connections(), Ordering::Relaxed);
                *link = Arc::new(new);
                tracing::warn!("the connection to the store is made anew");
            }
            Err(error) => tracing::error!(%error, "the connection to the store cannot be made anew"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Link>> {
        self.link.lock().expect("nothing panics under this lock")
    }
}

impl Link {
    /// Begins to connect, and does so again whenever the connection breaks.
    fn open(config: &Config) -> Result<Self, FredError> {
        let mut policy = ReconnectPolicy::new_exponential(0, 50, 2000, 2);
        policy.set_jitter(50);
        let mut link = Self::open_by(config, Some(policy))?;
        link.task = Some(link.client.connect());
        Ok(link)
    }

    fn open_by(config: &Config, policy: Option<ReconnectPolicy>) -> Result<Self, FredError> {
        let mut builder = Builder::from_config(config.clone());
        builder.with_connection_config(|connection| *connection = connection_config());
        if let Some(policy) = policy {
            builder.set_policy(policy);
        }
        Ok(Self::new(builder.build()?, None))
    }

    fn new(client: Client, task: Option<ConnectHandle>) -> Self {
        let troubles = Mutex::new(client.error_rx());
        let connected = Mutex::new((client.reconnect_rx(), 0));
        Self { client, troubles, connected, task, unanswered: AtomicU32::new(0) }
    }

    /// Whether nobody works at its connection any more.
    pub(super) fn has_ended(&self) -> bool {
        self.task.as_ref().is_some_and(ConnectHandle::is_finished)
    }

    fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    fn is_useless_after(&self, error: &FredError) -> bool {
        if *error.kind() == FredKind::Timeout {
            return self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED;
        }
        self.answered();
        // A master that became a replica: the next connection finds the new one, by sentinel or by name.
        error.details().starts_with("READONLY")
    }

    fn connections(&self) -> u64 {
        let (made, sum) = &mut *self.connected.lock().expect("nothing panics under this lock");
        loop {
            *sum += match made.try_recv() {
                Ok(_) => 1,
                Err(broadcast::error::TryRecvError::Lagged(missed)) => missed,
                Err(_) => return *sum,
            };
        }
    }

    fn latest_trouble(&self) -> Option<FredError> {
        let mut troubles = self.troubles.lock().expect("nothing panics under this lock");
        let mut latest = None;
        loop {
            match troubles.try_recv() {
                Ok((error, _)) => latest = Some(error),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return latest,
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The client's own `quit` waits for a server that may be away, and without this its task would
        // live on.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // fred's own would print the password.
        f.debug_struct("Connection").field("id", &self.lock().client.id()).finish_non_exhaustive()
    }
}

/// What the server or the client said, of an error that was made here.
pub(super) fn answer_of(error: &Error) -> Option<&str> {
    std::error::Error::source(error)?.downcast_ref::<FredError>().map(FredError::details)
}

/// Whether an error is an answer of the server that begins like this.
pub(super) fn says(error: &Error, beginning: &str) -> bool {
    answer_of(error).is_some_and(|answer| answer.starts_with(beginning))
}

fn connection_config() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: Duration::from_secs(2),
        internal_command_timeout: Duration::from_secs(2),
        // A redirection by ASK would end the client's task for ever; without, it costs one error.
        max_redirections: 0,
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_secs(3)),
            interval: Duration::from_millis(500),
        },
        // A wrong password may become right: the server's owner rotates it.
        reconnect_on_auth_error: true,
        tcp: TcpConfig {
            nodelay: Some(true),
            #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
            user_timeout: Some(Duration::from_secs(5)),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

/// A command for the server of a key, should the client know several.
pub(super) fn command(name: &'static str, key: &str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Custom(redis_keyslot(key.as_bytes())), false)
}

pub(super) fn unavailable(words: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unavailable).caused_by(FredError::new(FredKind::Unknown, words.into()))
}

pub(super) fn explain(error: FredError) -> Error {
    let unreachable = matches!(
        error.kind(),
        FredKind::IO | FredKind::Timeout | FredKind::Canceled | FredKind::Routing | FredKind::Backpressure
    );
    let kind = if unreachable { ErrorKind::Unavailable } else { ErrorKind::Refused };
    Error::new(kind).caused_by(error)
}
