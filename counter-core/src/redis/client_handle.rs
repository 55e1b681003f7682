use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{Config, ConnectionConfig, ReconnectPolicy, Server, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, ConnectHandle};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::timeout;

/// A client of fred, and the events that it reports.
pub(crate) struct ClientHandle {
    pub(crate) client: Client,
    /// The task of a client that was made here. It is stored before anything is awaited: the caller may be
    /// dropped at every await, and a task that is not owned by then would never be ended.
    task: Option<ConnectHandle>,
    ended: AtomicBool,
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

/// The time to listen for a connection before its state is checked again.
const LOOK: Duration = Duration::from_millis(50);

impl ClientHandle {
    /// Starts to connect, and reconnects whenever the connection breaks.
    pub(crate) fn open(config: &Config) -> Result<Self, FredError> {
        let mut policy = ReconnectPolicy::new_exponential(0, 50, 2000, 2);
        policy.set_jitter(50);
        Self::open_by(config.clone(), Some(policy))
    }

    /// Starts to connect, once: the client ends when that fails, or when the connection breaks.
    pub(crate) fn open_once(config: Config) -> Result<Self, FredError> {
        Self::open_by(Config { fail_fast: true, ..config }, None)
    }

    fn open_by(config: Config, policy: Option<ReconnectPolicy>) -> Result<Self, FredError> {
        let mut builder = Builder::from_config(config);
        builder.with_connection_config(|connection| *connection = connection_config());
        if let Some(policy) = policy {
            builder.set_policy(policy);
        }
        // The listener for errors is registered before any error can occur.
        let mut handle = Self::of(builder.build()?);
        handle.task = Some(handle.client.connect());
        Ok(handle)
    }

    /// Wraps a client of the user.
    pub(crate) fn of(client: Client) -> Self {
        let (troubles, connected) = (client.error_rx(), client.reconnect_rx());
        let told = Mutex::new(Told { troubles, connected, trouble: None, connections: 0 });
        Self { client, task: None, ended: AtomicBool::new(false), told, unanswered: AtomicU32::new(0) }
    }

    /// Waits until the client is connected, or cannot be.
    pub(crate) async fn connected(&self) -> Result<(), FredError> {
        while !self.has_ended() {
            // A connection that is made after fred's check of the state and before it listens is not
            // reported.
            if let Ok(answer) = timeout(LOOK, self.client.wait_for_connect()).await {
                return answer;
            }
        }
        let trouble = self.latest_trouble();
        Err(trouble.unwrap_or_else(|| FredError::new(FredKind::IO, "the connection could not be made")))
    }

    /// Returns the answer, or an error if the connection broke, or could not be made, before the answer came.
    ///
    /// `fail_fast` alone is not enough: between a break and the first attempt to reconnect, the client still
    /// accepts commands, and only their timeout ends them.
    pub(crate) async fn unless_broken<T>(
        &self,
        answer: impl Future<Output = Result<T, FredError>>,
    ) -> Result<T, FredError> {
        let mut troubles = self.client.error_rx();
        // Boxed, since fred's futures are deep, and rustc follows those of one task to a depth of 128.
        let answer = Box::pin(answer);
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
        self.ended.load(Ordering::Relaxed) || self.task.as_ref().is_some_and(ConnectHandle::is_finished)
    }

    /// Ends the client and its connection.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        // The client's own `quit` waits for a server that may be away; without the abort, its task would live
        // on.
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    pub(crate) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.told().trouble = None;
    }

    pub(crate) fn is_useless_after(&self, error: &FredError) -> bool {
        if *error.kind() == FredKind::Timeout {
            return self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED;
        }
        self.unanswered.store(0, Ordering::Relaxed);
        // A master that became a replica: the next connection finds the new one, by sentinel or by name.
        is_code(error.details(), "READONLY")
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
        connection_timeout: Duration::from_secs(2),
        internal_command_timeout: Duration::from_secs(2),
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
