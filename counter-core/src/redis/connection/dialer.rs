use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::ConnectHandle;
use fred::types::config::{Config, Server, ServerConfig};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::address::{AddressFinder, CONNECT_TIMEOUT};
use super::client_handle::{ClientHandle, HANDSHAKE_TIMEOUT};
use crate::error::{Error, ErrorKind};
use crate::time::backoff::Backoff;

/// The task that maintains the connection: it connects, waits until the connection breaks, and then
/// reconnects.
///
/// It creates a new client for each attempt, and passes a resolved address: fred would resolve names on the
/// blocking threads of the runtime, try the addresses sequentially within a single timeout, and not report
/// the step that failed. Only masters found via Sentinel are left to fred, which remembers the discovered
/// sentinels.
pub(in crate::redis) struct Dialer {
    config: Config,
    link: Arc<Link>,
    finder: AddressFinder,
}

/// The current client, shared between the dialer and the calls.
#[derive(Default)]
pub(in crate::redis) struct Link(watch::Sender<State>);

#[derive(Default)]
struct State {
    client: Option<Arc<ClientHandle>>,
    /// The client configuration, including the connected address.
    config: Option<Config>,
    /// The reason for not being connected.
    last_error: Option<FredError>,
    /// The number of connections made by earlier clients.
    connections: u64,
}

impl Dialer {
    /// Starts the task. It will run until the returned handle is aborted.
    pub(in crate::redis) fn start(config: Config, link: Arc<Link>) -> AbortHandle {
        let dialer = Self { config, link, finder: AddressFinder::default() };
        tokio::spawn(dialer.run()).abort_handle()
    }

    async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.connect().await {
                Ok((config, client, task)) => {
                    let client = Arc::new(client);
                    self.link.connected(Arc::clone(&client), config);
                    client.until_broken(task).await;
                    client.end();
                    self.link.disconnected();
                    // Back off if a server accepts connections but never replies.
                    if client.has_replied() {
                        backoff.reset();
                    }
                }
                Err(last_error) => self.link.failed(last_error),
            }
            sleep(backoff.next()).await;
        }
    }

    async fn connect(&mut self) -> Result<(Config, ClientHandle, ConnectHandle), FredError> {
        let server = match &self.config.server {
            ServerConfig::Centralized { server } if can_replace_name(&self.config) => server.clone(),
            ServerConfig::Sentinel { .. } => {
                let (client, task) = ClientHandle::open(&self.config)?;
                return Ok((self.config.clone(), client, task));
            }
            _ => return open(self.config.clone(), "the server").await,
        };
        let address = self.finder.find(&server.host, server.port).await?;
        let server = ServerConfig::Centralized { server: with_address(server, address) };
        open(Config { server, ..self.config.clone() }, &address.to_string()).await
    }
}

/// Opens a client and waits for the connection. Errors name the step that failed.
async fn open(config: Config, server: &str) -> Result<(Config, ClientHandle, ConnectHandle), FredError> {
    let started = Instant::now();
    let (client, task) = ClientHandle::open_once(config.clone())?;
    let Err(error) = client.connected().await else { return Ok((config, client, task)) };
    let message = match error.kind() {
        // fred does not report the timeout that has elapsed. The handshake has the longer timeout and runs
        // second.
        FredKind::Timeout if started.elapsed() < HANDSHAKE_TIMEOUT => {
            format!("{server} did not accept a connection within {} s", CONNECT_TIMEOUT.as_secs())
        }
        FredKind::Timeout => format!(
            "{server} accepted a connection, but did not complete the handshake (AUTH, PING, SELECT) within {} s",
            HANDSHAKE_TIMEOUT.as_secs()
        ),
        FredKind::IO => format!("connecting to {server}: {}", error.details()),
        _ => return Err(error),
    };
    Err(FredError::new(error.kind().clone(), message))
}

/// Returns `true` if the server name can be replaced with the address. TLS needs to check the name against
/// the certificate.
fn can_replace_name(config: &Config) -> bool {
    cfg!(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls")) || !config.uses_tls()
}

fn with_address(mut server: Server, address: SocketAddr) -> Server {
    #[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs", feature = "native-tls"))]
    server.tls_server_name.get_or_insert_with(|| server.host.clone());
    let text = address.to_string();
    // IPv6 addresses keep the brackets and the scope.
    server.host = text.rsplit_once(':').map_or(&*text, |(host, _)| host).to_owned().into();
    server
}

impl Link {
    /// Creates a link to a client that is connected by the user.
    pub(in crate::redis) fn of(client: ClientHandle) -> Self {
        let state = State { client: Some(Arc::new(client)), ..State::default() };
        Self(watch::Sender::new(state))
    }

    /// Returns the current client.
    ///
    /// # Errors
    /// Returns the error from the latest connection attempt if the client is not connected.
    pub(in crate::redis) fn client(&self) -> Result<Arc<ClientHandle>, Error> {
        let state = self.0.borrow();
        let last_error = match &state.client {
            Some(client) if !client.has_ended() => return Ok(Arc::clone(client)),
            Some(client) => client.latest_error(),
            None => state.last_error.clone(),
        };
        let last_error = last_error.unwrap_or_else(|| FredError::new(FredKind::IO, "not connected"));
        Err(Error::new(ErrorKind::Unavailable).caused_by(last_error))
    }

    /// Returns the configuration, including the address of the current connection.
    pub(in crate::redis) fn config(&self) -> Option<Config> {
        self.0.borrow().config.clone()
    }

    /// Waits for the connection, up to the given timeout.
    pub(in crate::redis) async fn wait(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut changes = self.0.subscribe();
        let found = tokio::time::timeout_at(deadline, changes.wait_for(|state| state.client.is_some())).await;
        // This is a separate statement because the guard must not be held across an await.
        let client = found.ok().and_then(Result::ok).and_then(|state| state.client.clone());
        if let Some(client) = client {
            client.wait(deadline - Instant::now()).await;
        }
    }

    /// Returns the number of connections made.
    pub(in crate::redis) fn connections(&self) -> u64 {
        let state = self.0.borrow();
        state.connections + state.client.as_ref().map_or(0, |client| client.connections())
    }

    fn connected(&self, client: Arc<ClientHandle>, config: Config) {
        self.0.send_modify(|state| {
            state.client = Some(client);
            state.config = Some(config);
            state.last_error = None;
        });
    }

    fn disconnected(&self) {
        self.0.send_modify(|state| {
            if let Some(client) = state.client.take() {
                state.connections += client.connections();
                state.last_error = client.latest_error();
            }
            state.config = None;
        });
    }

    fn failed(&self, last_error: FredError) {
        self.0.send_modify(|state| state.last_error = Some(last_error));
    }
}
