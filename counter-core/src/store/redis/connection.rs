use std::fmt;
use std::sync::Mutex;
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

/// An address that the Redis client does not understand.
#[derive(Debug)]
pub struct ConnectError(FredError);

/// A client of fred, with the settings that keep its promises few and true: an attempt is an attempt,
/// it ends in bounded time, and trying again is our own affair.
pub(super) struct Connection {
    client: Client,
    options: Options,
    /// Why connecting fails is told nowhere else: commands only say that there is no connection.
    troubles: Mutex<broadcast::Receiver<(FredError, Option<Server>)>>,
    /// The task of a client that was made here.
    task: Option<ConnectHandle>,
}

/// For one command, from the call to the answer. It must be longer than the time after which the
/// client takes a silent server for dead.
const TIMEOUT: Duration = Duration::from_secs(5);

const FIRST_CONNECTION: Duration = Duration::from_secs(1);

impl Connection {
    pub(super) async fn open(url: &str) -> Result<Self, ConnectError> {
        let mut config = Config::from_url(url).map_err(ConnectError)?;
        // Otherwise a server that is away at the start would be given up.
        config.fail_fast = false;
        let mut policy = ReconnectPolicy::new_exponential(0, 50, 2000, 2);
        policy.set_jitter(50);
        let client = Builder::from_config(config)
            .with_connection_config(|connection| *connection = connection_config())
            .set_policy(policy)
            .build()
            .map_err(ConnectError)?;
        let mut connection = Self::of(client);
        connection.task = Some(connection.client.connect());
        // So that a service whose server is there does not begin with failures.
        drop(timeout(FIRST_CONNECTION, connection.client.wait_for_connect()).await);
        Ok(connection)
    }

    pub(super) fn of(client: Client) -> Self {
        let options = Options { fail_fast: true, timeout: Some(TIMEOUT), ..Options::default() };
        let troubles = Mutex::new(client.error_rx());
        Self { client, options, troubles, task: None }
    }

    /// Sends one command; `key` says which server of a cluster it goes to.
    pub(super) async fn call<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        arguments: Vec<Value>,
    ) -> Result<R, Error> {
        self.try_call(command, key, arguments).await.map_err(|error| self.explain(error))
    }

    /// As [`call`](Self::call), with the client's own error.
    pub(super) async fn try_call<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        arguments: Vec<Value>,
    ) -> Result<R, FredError> {
        let command = CustomCommand::new_static(command, slot(key), false);
        self.client.with_options(&self.options).custom(command, arguments).await
    }

    /// Sends several commands at once, for answers in the same order.
    pub(super) async fn call_all<R: FromValue>(
        &self,
        command: &'static str,
        key: &str,
        calls: Vec<Vec<Value>>,
    ) -> Result<Vec<R>, Error> {
        let pipeline = self.client.pipeline();
        let with_options = pipeline.with_options(&self.options);
        for arguments in calls {
            let command = CustomCommand::new_static(command, slot(key), false);
            let queued: Result<(), _> = with_options.custom(command, arguments).await;
            queued.map_err(|error| self.explain(error))?;
        }
        pipeline.all().await.map_err(|error| self.explain(error))
    }

    pub(super) fn explain(&self, error: FredError) -> Error {
        let unreachable = matches!(
            error.kind(),
            FredKind::IO
                | FredKind::Timeout
                | FredKind::Canceled
                | FredKind::Routing
                | FredKind::Backpressure
        );
        if !unreachable {
            return Error::new(ErrorKind::Refused).caused_by(error);
        }
        let cause = self.latest_trouble().unwrap_or(error);
        Error::new(ErrorKind::Unavailable).caused_by(cause)
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

impl Drop for Connection {
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
        f.debug_struct("Connection").field("id", &self.client.id()).finish_non_exhaustive()
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the address of a Redis server, such as redis://127.0.0.1:6379")
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
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

fn slot(key: &str) -> ClusterHash {
    ClusterHash::Custom(redis_keyslot(key.as_bytes()))
}
