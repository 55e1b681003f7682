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

/// A fred client together with the events that it reports.
///
/// All fred futures except its task are awaited here, in boxed futures that are not generic: they are large,
/// and the compiler would copy them to all callers.
pub(crate) struct ClientHandle {
    pub(crate) client: Client,
    /// The task of a client that we created. This must be set before the caller awaits: callers can be
    /// dropped at any await, and otherwise the task would never be aborted.
    task: Option<AbortHandle>,
    ended: AtomicBool,
    /// True if the server has replied to a command.
    replied: AtomicBool,
    events: Mutex<Events>,
    /// The number of consecutive calls that timed out.
    unanswered: AtomicU32,
}

/// Events reported by the client. We need these because fred only reports via an event why it can't connect:
/// commands just fail.
struct Events {
    errors: Receiver<(FredError, Option<Server>)>,
    connected: Receiver<Server>,
    /// The latest connection error. This is reset if the server replies to a command.
    last_error: Option<FredError>,
    connections: u64,
}

/// The client is considered dead after this number of consecutive timeouts.
const MAX_CONSECUTIVE_TIMEOUTS: u32 = 3;

/// Timeout for the handshake. It takes up to four sequential commands, so this allows for a round trip of two
/// seconds.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval for checking the connection state while waiting for the connect event of the client.
const CONNECT_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl ClientHandle {
    /// Starts to connect, and will reconnect if the connection breaks. Also returns the connection task.
    pub(crate) fn open(config: &Config) -> Result<(Self, ConnectHandle), FredError> {
        let mut policy = ReconnectPolicy::new_exponential(0, 50, 2000, 2);
        policy.set_jitter(50);
        // Otherwise the client would give up if the server is unavailable at startup.
        Self::open_by(Config { fail_fast: false, ..config.clone() }, Some(policy))
    }

    /// Starts to connect, but does not reconnect: the task ends if the connection breaks or can't be made.
    pub(crate) fn open_once(config: Config) -> Result<(Self, ConnectHandle), FredError> {
        Self::open_by(Config { fail_fast: true, ..config }, None)
    }

    fn open_by(config: Config, policy: Option<ReconnectPolicy>) -> Result<(Self, ConnectHandle), FredError> {
        let mut builder = Builder::from_config(config);
        builder.with_connection_config(|connection| *connection = connection_config());
        if let Some(policy) = policy {
            builder.set_policy(policy);
        }
        // We use a pool with a single client because `connect` of a pool is compiled in fred, but `connect`
        // of a client would be compiled here, along with the whole client.
        let pool = builder.build_pool(1)?;
        // This registers the listener for errors, so it must be done before we connect.
        let mut handle = Self::of(pool.next().clone());
        let task = pool.connect_pool().pop().expect("one task for each client of the pool");
        handle.task = Some(task.abort_handle());
        Ok((handle, task))
    }

    /// Wraps a client created by the user.
    pub(crate) fn of(client: Client) -> Self {
        let (errors, connected) = (client.error_rx(), client.reconnect_rx());
        let events = Mutex::new(Events { errors, connected, last_error: None, connections: 0 });
        let (ended, replied) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { client, task: None, ended, replied, events, unanswered: AtomicU32::new(0) }
    }

    /// Waits for the connection, up to the given timeout.
    pub(crate) fn wait(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move { drop(timeout(limit, self.client.wait_for_connect()).await) })
    }

    /// Waits until the client is connected. Returns an error if it can't connect.
    pub(crate) fn connected(&self) -> BoxFuture<'_, Result<(), FredError>> {
        Box::pin(async move {
            let connecting = async {
                while !self.has_ended() {
                    // `wait_for_connect` misses a connection made between its check and its subscription, so
                    // we need to poll.
                    if let Ok(reply) = timeout(CONNECT_POLL_INTERVAL, self.client.wait_for_connect()).await {
                        return reply;
                    }
                }
                Err(FredError::new(FredKind::IO, "failed to connect"))
            };
            let connected = self.unless_broken(connecting).await;
            connected.map_err(|error| self.latest_error().unwrap_or(error))
        })
    }

    /// Waits until the connection breaks, or until the task that reconnects ends.
    pub(crate) async fn until_broken(&self, task: ConnectHandle) {
        let mut errors = self.client.error_rx();
        tokio::select! {
            _ = task => {}
            _ = errors.recv(), if !self.client.has_reconnect_policy() => {}
        }
    }

    /// Sends a command.
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

    /// Sends a command and returns the raw reply.
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

    /// Sends commands in a pipeline, and returns the replies in the same order.
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

    /// Returns the reply, or an error if the connection breaks or can't be made in the meantime.
    ///
    /// `fail_fast` is not sufficient: the client still accepts commands between the connection loss and the
    /// next connection attempt, and these would have to time out.
    async fn unless_broken<T>(
        &self,
        reply: impl Future<Output = Result<T, FredError>>,
    ) -> Result<T, FredError> {
        let mut errors = self.client.error_rx();
        tokio::select! {
            biased;
            reply = reply => reply,
            // A cluster client created by the user has more than one connection, so the error may belong to a
            // different connection.
            _ = errors.recv(), if self.task.is_some() => {
                Err(FredError::new(FredKind::IO, "the connection was lost"))
            }
        }
    }

    /// Returns `true` if the connection task has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.task.as_ref().is_some_and(AbortHandle::is_finished)
    }

    /// Closes the client and the connection, unless the client has been created by the user.
    pub(crate) fn end(&self) {
        // `quit` would wait for a server that may be unavailable, and the task would leak without the abort.
        if let Some(task) = &self.task {
            self.ended.store(true, Ordering::Relaxed);
            task.abort();
        }
    }

    /// Closes the client. Calls return `reason` as the error until the client is replaced.
    pub(crate) fn end_with_reason(&self, reason: &'static str) {
        let message = format!("the connection is being replaced: {reason}");
        self.events().last_error = Some(FredError::new(FredKind::IO, message));
        self.end();
    }

    pub(crate) fn replied(&self) {
        self.replied.store(true, Ordering::Relaxed);
        self.unanswered.store(0, Ordering::Relaxed);
        self.events().last_error = None;
    }

    pub(crate) fn has_replied(&self) -> bool {
        self.replied.load(Ordering::Relaxed)
    }

    /// Records an error. Returns `true` if the number of consecutive timeouts shows that the client should be
    /// considered dead.
    pub(crate) fn is_unresponsive_after(&self, error: &FredError) -> bool {
        if *error.kind() == FredKind::Timeout {
            return self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_CONSECUTIVE_TIMEOUTS;
        }
        self.unanswered.store(0, Ordering::Relaxed);
        false
    }

    pub(crate) fn connections(&self) -> u64 {
        self.events().connections
    }

    pub(crate) fn latest_error(&self) -> Option<FredError> {
        self.events().last_error.clone()
    }

    /// Returns the events, including all pending events from the channels.
    fn events(&self) -> MutexGuard<'_, Events> {
        let mut events = self.events.lock().expect("the lock is never poisoned");
        loop {
            match events.errors.try_recv() {
                // The close event is less specific than the error that caused it.
                Ok((error, _)) if events.last_error.is_some() && *error.kind() == FredKind::Canceled => {}
                Ok((error, _)) => events.last_error = Some(error),
                Err(TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        loop {
            events.connections += match events.connected.try_recv() {
                Ok(_) => 1,
                Err(TryRecvError::Lagged(missed)) => missed,
                Err(_) => return events,
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
        // An ASK redirection would end the client task forever. This way it only costs a single error.
        max_redirections: 0,
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(Duration::from_secs(3)),
            interval: Duration::from_millis(500),
        },
        // A wrong password might become valid, e.g. if it is being rotated on the server.
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

/// Returns `true` if a message starts with this error code. In scripts, Redis 6.2 puts the position before
/// the code.
pub(crate) fn is_code(message: &str, code: &str) -> bool {
    let has_prefix =
        message.strip_prefix(code).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']));
    has_prefix || message.contains(&format!(": -{code} "))
}

#[cfg(test)]
mod tests {
    use super::is_code;

    #[test]
    fn error_codes_are_found_at_the_start_and_in_script_errors() {
        for (message, code, expected) in [
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
            assert_eq!(is_code(message, code), expected, "{message}");
        }
    }
}
