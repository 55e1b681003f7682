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

/// The task that keeps a server connected: it connects, waits until the connection breaks, and connects again.
///
/// Each attempt has a client of its own, which is given the address to connect to: fred looks names up with the
/// runtime's blocking threads, tries the addresses of a name one after the other under a single timeout, and then does
/// not say which step failed. Only masters that are found by Sentinel are left to fred, which remembers the sentinels
/// that it has learned of.
pub(in crate::redis) struct Dialer {
    config: Config,
    link: Arc<Link>,
    finder: AddressFinder,
}

/// The current client, shared by a dialer and the calls that use it.
#[derive(Default)]
pub(in crate::redis) struct Link(watch::Sender<State>);

#[derive(Default)]
struct State {
    client: Option<Arc<ClientHandle>>,
    /// The configuration of the client, with the address that it is connected to.
    config: Option<Config>,
    /// The reason why there is no connection.
    trouble: Option<FredError>,
    /// The number of connections that earlier clients made.
    connections: u64,
}

impl Dialer {
    /// Starts the task. It ends when the handle is aborted.
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
                    // A server that accepts connections and answers nothing is not connected to more and more often.
                    if client.has_answered() {
                        backoff.reset();
                    }
                }
                Err(trouble) => self.link.failed(trouble),
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

/// Opens a client and waits for its connection; an error names the step that failed.
async fn open(config: Config, server: &str) -> Result<(Config, ClientHandle, ConnectHandle), FredError> {
    let started = Instant::now();
    let (client, task) = ClientHandle::open_once(config.clone())?;
    let Err(error) = client.connected().await else { return Ok((config, client, task)) };
    let words = match error.kind() {
        // Fred does not say which timeout has passed. The handshake has the longer one and comes second.
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
    Err(FredError::new(error.kind().clone(), words))
}

/// Returns whether the name of a server may be replaced by its address: TLS checks the name against the certificate.
fn can_replace_name(config: &Config) -> bool {
    cfg!(any(feature = "rustls", feature = "native-tls")) || !config.uses_tls()
}

fn with_address(mut server: Server, address: SocketAddr) -> Server {
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    server.tls_server_name.get_or_insert_with(|| server.host.clone());
    let text = address.to_string();
    // An IPv6 address keeps its brackets and its scope.
    server.host = text.rsplit_once(':').map_or(&*text, |(host, _)| host).to_owned().into();
    server
}

impl Link {
    /// Returns a link with a client that is connected by its owner.
    pub(in crate::redis) fn of(client: ClientHandle) -> Self {
        let state = State { client: Some(Arc::new(client)), ..State::default() };
        Self(watch::Sender::new(state))
    }

    /// Returns the current client.
    ///
    /// # Errors
    /// Fails with the error of the last attempt to connect if there is no connection.
    pub(in crate::redis) fn client(&self) -> Result<Arc<ClientHandle>, Error> {
        let state = self.0.borrow();
        let trouble = match &state.client {
            Some(client) if !client.has_ended() => return Ok(Arc::clone(client)),
            Some(client) => client.latest_trouble(),
            None => state.trouble.clone(),
        };
        let trouble =
            trouble.unwrap_or_else(|| FredError::new(FredKind::IO, "there is no connection at the moment"));
        Err(Error::new(ErrorKind::Unavailable).caused_by(trouble))
    }

    /// Returns the configuration with the address of the current connection.
    pub(in crate::redis) fn config(&self) -> Option<Config> {
        self.0.borrow().config.clone()
    }

    /// Waits until there is a connection, for at most this long.
    pub(in crate::redis) async fn wait(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut changes = self.0.subscribe();
        let found = tokio::time::timeout_at(deadline, changes.wait_for(|state| state.client.is_some())).await;
        // Not in the condition below: the guard must not live across an await.
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
            state.trouble = None;
        });
    }

    fn disconnected(&self) {
        self.0.send_modify(|state| {
            if let Some(client) = state.client.take() {
                state.connections += client.connections();
                state.trouble = client.latest_trouble();
            }
            state.config = None;
        });
    }

    fn failed(&self, trouble: FredError) {
        self.0.send_modify(|state| state.trouble = Some(trouble));
    }
}
