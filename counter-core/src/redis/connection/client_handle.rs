use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{
    Config, ConnectionConfig, Options, ReconnectPolicy, Server, TcpConfig, UnresponsiveConfig,
};
use fred::types::{Builder, ConnectHandle, CustomCommand, Resp3Frame, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::CONNECT_TIMEOUT;
use crate::family::future::BoxFuture;

/// A client of fred, and the events that it reports.
///
/// All futures of fred that are not its own task are awaited here, each in one boxed future that is generic over
/// nothing: they are large, and the compiler copies them into every place that awaits them.
pub(crate) struct ClientHandle {
    pub(crate) client: Client,
    /// The task of a client that was made here. It is stored before anything is awaited: the caller may be
    /// dropped at every await, and a task that is not owned by then would never be ended.
    task: Option<AbortHandle>,
    ended: AtomicBool,
    /// True once a command was answered.
    answered: AtomicBool,
    told: Mutex<Told>,
    /// The number of calls in a row without an answer.
    unanswered: AtomicU32,
}

/// The reason why connecting fails is reported as an event only: commands just fail without a connection.
struct Told {
    troubles: Receiver<(FredError, Option<Server>)>,
    connected: Receiver<Server>,
    /// The last connection error since a command was answered.
    trouble: Option<FredError>,
    connections: u64,
}

/// The number of calls in a row without an answer after which the client itself is considered dead.
const UNANSWERED: u32 = 3;

/// Bound on the handshake of a connection: up to four commands, one after the other, so that it succeeds if a round trip
/// takes two seconds.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time to listen for a connection before its state is checked again.
const LOOK: Duration = Duration::from_millis(50);

impl ClientHandle {
    /// Starts to connect, and reconnects whenever the connection breaks. Returns the task of the connection as well.
    pub(crate) fn open(config: &Config) -> Result<(Self, ConnectHandle), FredError> {
        let mut policy = ReconnectPolicy::new_exponential(0, 50, 2000, 2);
        policy.set_jitter(50);
        // Otherwise a server that is away at the start would be given up.
        Self::open_by(Config { fail_fast: false, ..config.clone() }, Some(policy))
    }

    /// Starts to connect, once: the task ends when that fails, or when the connection breaks.
    pub(crate) fn open_once(config: Config) -> Result<(Self, ConnectHandle), FredError> {
        Self::open_by(Config { fail_fast: true, ..config }, None)
    }

    fn open_by(config: Config, policy: Option<ReconnectPolicy>) -> Result<(Self, ConnectHandle), FredError> {
        let mut builder = Builder::from_config(config);
        builder.with_connection_config(|connection| *connection = connection_config());
        if let Some(policy) = policy {
            builder.set_policy(policy);
        }
        // A pool of one, since `connect` of a client is compiled here, with the whole client, and that of a pool is
        // compiled in fred.
        let pool = builder.build_pool(1)?;
        // The listener for errors is registered before any error can occur.
        let mut handle = Self::of(pool.next().clone());
        let task = pool.connect_pool().pop().expect("one task for each client of the pool");
        handle.task = Some(task.abort_handle());
        Ok((handle, task))
    }

    /// Wraps a client of the user.
    pub(crate) fn of(client: Client) -> Self {
        let (troubles, connected) = (client.error_rx(), client.reconnect_rx());
        let told = Mutex::new(Told { troubles, connected, trouble: None, connections: 0 });
        let (ended, answered) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { client, task: None, ended, answered, told, unanswered: AtomicU32::new(0) }
    }

    /// Waits for the connection, for at most this long.
    pub(crate) fn wait(&self, at_most: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move { drop(timeout(at_most, self.client.wait_for_connect()).await) })
    }

    /// Waits until the client is connected, or cannot be.
    pub(crate) fn connected(&self) -> BoxFuture<'_, Result<(), FredError>> {
        Box::pin(async move {
            let connecting = async {
                while !self.has_ended() {
                    // A connection that is made after fred's check of the state and before it listens is not
                    // reported.
                    if let Ok(answer) = timeout(LOOK, self.client.wait_for_connect()).await {
                        return answer;
                    }
                }
                Err(FredError::new(FredKind::IO, "the connection could not be made"))
            };
            let connected = self.unless_broken(connecting).await;
            connected.map_err(|error| self.latest_trouble().unwrap_or(error))
        })
    }

    /// Waits until the connection breaks, or until the task that reconnects has ended.
    pub(crate) async fn until_broken(&self, task: ConnectHandle) {
        let mut troubles = self.client.error_rx();
        tokio::select! {
            _ = task => {}
            _ = troubles.recv(), if !self.client.has_reconnect_policy() => {}
        }
    }

    /// Sends one command.
    pub(crate) fn call<'a>(
        &'a self,
        options: &'a Options,
        command: CustomCommand,
        arguments: Vec<Value>,
    ) -> BoxFuture<'a, Result<Value, FredError>> {
        Box::pin(
            self.unless_broken(
                async move { self.client.with_options(options).custom(command, arguments).await },
            ),
        )
    }

    /// Sends one command, and returns the answer as the server sent it.
    pub(crate) fn call_raw<'a>(
        &'a self,
        options: &'a Options,
        command: CustomCommand,
        arguments: Vec<Value>,
    ) -> BoxFuture<'a, Result<Resp3Frame, FredError>> {
        Box::pin(self.unless_broken(async move {
            self.client.with_options(options).custom_raw(command, arguments).await
        }))
    }

    /// Sends several commands at once, and returns the answers in the same order.
    pub(crate) fn call_each<'a>(
        &'a self,
        options: &'a Options,
        calls: Vec<(CustomCommand, Vec<Value>)>,
    ) -> BoxFuture<'a, Result<Vec<Result<Value, FredError>>, FredError>> {
        Box::pin(self.unless_broken(async move {
            let pipeline = self.client.pipeline();
            let with_options = pipeline.with_options(options);
            for (command, arguments) in calls {
                let _queued: Value = with_options.custom(command, arguments).await?;
            }
            Ok(pipeline.try_all().await)
        }))
    }

    /// Returns the answer, or an error if the connection broke, or could not be made, before the answer came.
    ///
    /// `fail_fast` alone is not enough: between a break and the first attempt to reconnect, the client still
    /// accepts commands, and only their timeout ends them.
    async fn unless_broken<T>(
        &self,
        answer: impl Future<Output = Result<T, FredError>>,
    ) -> Result<T, FredError> {
        let mut troubles = self.client.error_rx();
        tokio::select! {
            biased;
            answer = answer => answer,
            // In a cluster, a user's own client has several connections, of which another one may break.
            _ = troubles.recv(), if self.task.is_some() => {
                Err(FredError::new(FredKind::IO, "the connection broke"))
            }
        }
    }

    /// Returns whether the task of the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.task.as_ref().is_some_and(AbortHandle::is_finished)
    }

    /// Ends the client and its connection, unless it is a client of the user.
    pub(crate) fn end(&self) {
        // The client's own `quit` waits for a server that may be away; without the abort, its task would live
        // on.
        if let Some(task) = &self.task {
            self.ended.store(true, Ordering::Relaxed);
            task.abort();
        }
    }

    /// Ends the client for a reason, which the calls until the next connection get as their error.
    pub(crate) fn end_because(&self, reason: &'static str) {
        let words = format!("the connection is being replaced: {reason}");
        self.told().trouble = Some(FredError::new(FredKind::IO, words));
        self.end();
    }

    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
        self.unanswered.store(0, Ordering::Relaxed);
        self.told().trouble = None;
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Returns whether so many calls in a row had no answer that the client itself is considered dead.
    pub(crate) fn hangs_after(&self, error: &FredError) -> bool {
        if *error.kind() == FredKind::Timeout {
            return self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED;
        }
        self.unanswered.store(0, Ordering::Relaxed);
        false
    }

    pub(crate) fn connections(&self) -> u64 {
        self.told().connections
    }

    pub(crate) fn latest_trouble(&self) -> Option<FredError> {
        self.told().trouble.clone()
    }

    /// Returns everything that was reported until now.
    fn told(&self) -> MutexGuard<'_, Told> {
        let mut told = self.told.lock().expect("nothing panics under this lock");
        loop {
            match told.troubles.try_recv() {
                // The event that the connection was closed says less than the reason why it could not be
                // made.
                Ok((error, _)) if told.trouble.is_some() && *error.kind() == FredKind::Canceled => {}
                Ok((error, _)) => told.trouble = Some(error),
                Err(TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        loop {
            told.connections += match told.connected.try_recv() {
                Ok(_) => 1,
                Err(TryRecvError::Lagged(missed)) => missed,
                Err(_) => return told,
            };
        }
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.end();
    }
}

fn connection_config() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT_TIMEOUT,
        internal_command_timeout: HANDSHAKE_TIMEOUT,
        // A redirection by ASK would end the client's task for ever; this way it costs one error.
        max_redirections: 0,
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_secs(3)),
            interval: Duration::from_millis(500),
        },
        // A wrong password may become right: the owner of the server rotates it.
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

/// Returns whether the answer of a server begins with this error code; Redis 6.2 puts the position within a
/// script before it.
pub(crate) fn is_code(said: &str, word: &str) -> bool {
    let begins = said.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']));
    begins || said.contains(&format!(": -{word} "))
}

#[cfg(test)]
mod tests {
    use super::is_code;

    #[test]
    fn a_word_is_found_at_the_beginning_and_inside_of_a_script() {
        for (said, word, expected) in [
            ("READONLY You can't write against a read only replica.", "READONLY", true),
            (
                "ERR Error running script (call to f_1): @user_script:27: -READONLY You can't.",
                "READONLY",
                true,
            ),
            ("NOSCRIPT", "NOSCRIPT", true),
            ("BUSYGROUP it exists", "BUSY", false),
            ("ERR unknown command 'READONLY'", "READONLY", false),
        ] {
            assert_eq!(is_code(said, word), expected, "{said}");
        }
    }
}
