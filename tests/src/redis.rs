//! A Redis server that is started for one test.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use std::{env, thread};

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::noon::wait_while_hour_changes;
use crate::patience::Patience;
use crate::resp::{self, Value};

/// Upper bound for the time that the server may take to start, to stop, or to reply.
const LIMIT: Duration = crate::until::LIMIT;

/// Interval at which we check if the server has started or stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of ports to try before we give up.
pub(crate) const MAX_PORT_ATTEMPTS: usize = 5;

/// Range of the ports for servers. The bus ports of a cluster are above this range, and the ephemeral ports
/// of the kernel are above those.
const FIRST_PORT: u16 = 12_000;
const PORT_COUNT: u16 = 10_000;

/// A `redis-server` process on a free loopback port, with a temporary folder for the data.
///
/// The server does not persist data unless you enable it via [`start_with`](Self::start_with), and it will be
/// killed on drop. All methods block. Commands are sent via the Unix socket in the folder, so that they never
/// go through a proxy or depend on the protocol of the port.
#[derive(Debug)]
pub struct RedisServer {
    // Must be declared before the folder: fields are dropped in this order, and the server writes to the
    // folder.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server that keeps the data in memory.
    ///
    /// # Panics
    ///
    /// Panics with the server log if the server does not respond within two minutes.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments, e.g. `&["--appendonly", "yes"]`. These override the
    /// arguments of [`start`](Self::start). You must not restrict the default user.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start), and if the server rejects the arguments.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_on(free_port, |_, port| plain(port).chain(owned(arguments)).collect())
    }

    /// Starts a server on the port that `port` returns. `arguments` is called with the folder and the port.
    pub(crate) fn start_on(port: impl Fn() -> u16, arguments: impl Fn(&Path, u16) -> Vec<String>) -> Self {
        wait_while_hour_changes();
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        for _ in 0..MAX_PORT_ATTEMPTS {
            let port = port();
            let arguments = arguments(folder.path(), port);
            // The port might be taken by a different process before the server can bind to it.
            if let Some(child) = launch(folder.path(), &arguments, is_pong) {
                return Self { child, folder, port, arguments };
            }
        }
        panic!("redis-server did not start:\n{}", log(folder.path()));
    }

    /// Returns the port. It does not change on restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns how often a command was called, e.g. `hgetall`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        let text = self.command(&["INFO", "commandstats"]).text().expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Returns the address. It does not change on restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        address(self.port)
    }

    /// Returns the URL for Redis clients: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the URL of the Unix socket for `fred`: `redis+unix:///PATH`.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Returns the path of the Unix socket. It does not change on restart.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// Stops the server cleanly with SIGTERM, and waits for it to exit.
    ///
    /// # Panics
    ///
    /// Panics if the server is still running after two minutes.
    pub fn stop(&mut self) {
        self.child.terminate();
        let patience = Patience::new(LIMIT);
        while self.child.status().is_none() {
            assert!(!patience.is_over(), "redis-server did not stop:\n{}", log(self.folder.path()));
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Kills the server with SIGKILL, and waits for it to exit.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Restarts the server on the same port with the same data.
    ///
    /// # Panics
    ///
    /// Panics with the server log if the server does not respond within two minutes.
    pub fn restart(&mut self) {
        self.restart_until(is_pong);
    }

    /// Like [`restart`](Self::restart), but does not wait until the data is loaded.
    ///
    /// # Panics
    ///
    /// Panics like [`restart`](Self::restart).
    pub fn restart_loading(&mut self) {
        self.restart_until(|_| true);
    }

    fn restart_until(&mut self, ready: fn(&Value) -> bool) {
        self.stop();
        let patience = Patience::new(LIMIT);
        loop {
            // If the server was killed, the port might still be taken for a moment.
            if let Some(child) = launch(self.folder.path(), &self.arguments, ready) {
                self.child = child;
                return;
            }
            assert!(!patience.is_over(), "redis-server did not restart:\n{}", log(self.folder.path()));
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends a command over a new connection and returns its reply.
    ///
    /// # Panics
    ///
    /// Panics if the reply can't be received.
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Value {
        self.try_command(words).expect("the server replies")
    }

    /// Like [`command`](Self::command), but returns an error if the server can't be reached.
    pub fn try_command(&self, words: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        send_commands(&self.socket(), &resp::encode(words), 1)
    }

    /// Like [`command`](Self::command), but sends `ASKING` first. This is needed if the slot is being
    /// migrated to this node.
    pub(crate) fn command_asking(&self, words: &[impl AsRef<[u8]>]) -> Value {
        let both = [resp::encode(&["ASKING"]), resp::encode(words)].concat();
        send_commands(&self.socket(), &both, 2).expect("the server replies")
    }

    /// Sends a command that replies with an integer, or with a string that contains a decimal integer.
    ///
    /// # Panics
    ///
    /// Panics on any other reply.
    pub fn int(&self, words: &[impl AsRef<[u8]>]) -> i64 {
        let reply = self.command(words);
        reply.text().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("not an integer: {reply:?}"))
    }

    /// Sends a command that replies with an array of strings. Integers are converted to strings.
    ///
    /// # Panics
    ///
    /// Panics on any other reply, or if a string is not UTF-8.
    pub fn strings(&self, words: &[impl AsRef<[u8]>]) -> Vec<String> {
        let reply = self.command(words);
        let Value::Array(values) = &reply else {
            panic!("not an array: {reply:?}");
        };
        let values: Option<Vec<String>> = values.iter().map(Value::text).collect();
        values.unwrap_or_else(|| panic!("not an array of strings: {reply:?}"))
    }

    /// Sends a command that replies with a string. Returns `None` for nil.
    ///
    /// # Panics
    ///
    /// Panics on any other reply.
    pub fn bytes(&self, words: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
        match self.command(words) {
            Value::Bulk(bytes) => Some(bytes),
            Value::Nil => None,
            reply => panic!("not a string: {reply:?}"),
        }
    }

    /// Returns the number of commands that were executed since the server started, including those in
    /// scripts.
    ///
    /// This does not count `INFO`, so that calling this method does not change the result.
    pub fn command_calls(&self) -> u64 {
        let statistics = self.command(&["INFO", "commandstats"]);
        let statistics = statistics.text().expect("INFO replies with text");
        statistics
            .lines()
            .filter(|line| line.starts_with("cmdstat_") && !line.starts_with("cmdstat_info:"))
            .filter_map(|line| line.split_once(":calls=")?.1.split_once(','))
            .map(|(calls, _)| calls.parse::<u64>().expect("the number of calls is an integer"))
            .sum()
    }
}

/// Returns the arguments for a server that listens on `port` and keeps the data in memory.
pub(crate) fn plain(port: u16) -> impl Iterator<Item = String> {
    owned(&["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]).chain([port.to_string()])
}

/// Converts the words to owned strings.
pub(crate) fn owned(words: &[&str]) -> impl Iterator<Item = String> {
    words.iter().map(|&word| word.to_owned())
}

/// Returns a free port that this process has not used yet.
///
/// The port is below the ephemeral range of the kernel, so that no client or listener can take it by chance
/// before the server binds to it or while the server restarts.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // A different test process should start at a different port.
    let first = u16::try_from(process::id() % 100).expect("less than 100") * (PORT_COUNT / 100);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + number % PORT_COUNT;
        if TcpListener::bind(address(port)).is_ok() {
            return port;
        }
    }
}

/// Returns the loopback address with this port.
pub(crate) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns the server program: `COUNTER_REDIS_SERVER`, or `redis-server` if the variable is not set.
fn program() -> OsString {
    env::var_os("COUNTER_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

fn is_pong(reply: &Value) -> bool {
    matches!(reply, Value::Simple(reply) if reply == "PONG")
}

/// Starts a server and waits until the reply to `PING` satisfies `ready`. Returns `None` if the server exits
/// early.
fn launch(folder: &Path, arguments: &[String], ready: fn(&Value) -> bool) -> Option<OwnedChild> {
    let output = File::create(log_path(folder)).expect("our folder is writable");
    let errors = output.try_clone().expect("an open file can be shared");
    let mut child = OwnedChild::spawn(
        Command::new(program())
            .args(arguments)
            .arg("--dir")
            .arg(folder)
            .arg("--unixsocket")
            .arg(socket(folder))
            .stdout(output)
            .stderr(errors),
    )
    .expect("redis-server is on the PATH: tests/run installs it");
    let patience = Patience::new(LIMIT);
    while child.status().is_none() {
        // Only this server can use the socket, and if it replies, it has already bound the port.
        if send_commands(&socket(folder), &resp::encode(&["PING"]), 1).is_ok_and(|reply| ready(&reply)) {
            return Some(child);
        }
        assert!(!patience.is_over(), "redis-server does not reply:\n{}", log(folder));
        thread::sleep(POLL_INTERVAL);
    }
    None
}

/// Sends `count` commands over a new connection and returns the reply to the last one.
fn send_commands(socket: &Path, commands: &[u8], count: usize) -> io::Result<Value> {
    let mut server = UnixStream::connect(socket)?;
    server.set_read_timeout(Some(LIMIT))?;
    server.write_all(commands)?;
    let mut received = Vec::new();
    let mut remaining = count;
    let mut chunk = [0; 16 * 1024];
    loop {
        let length = match server.read(&mut chunk) {
            // If the machine is suspended and resumed, a read with a timeout may be interrupted.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&chunk[..length]);
        while let Some((value, length)) = resp::decode(&received).map_err(io::Error::other)? {
            remaining -= 1;
            if remaining == 0 {
                return Ok(value);
            }
            received.drain(..length);
        }
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("redis.log")
}

fn log(folder: &Path) -> String {
    fs::read_to_string(log_path(folder)).unwrap_or_else(|error| format!("(no log: {error})"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::{RedisServer, Value};

    #[test]
    fn commands_return_the_reply() {
        let redis = RedisServer::start();
        assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
        assert_eq!(redis.socket_url(), format!("redis+unix://{}", redis.socket().display()));
        assert!(redis.socket().exists());
        assert_eq!(redis.command(&["SET", "number", "7"]), Value::Simple("OK".to_owned()));
        assert_eq!(redis.int(&["GET", "number"]), 7);
        assert_eq!(redis.int(&["SADD", "set", "member"]), 1);
        assert_eq!(redis.strings(&["SMEMBERS", "set"]), ["member"]);
        assert_eq!(redis.bytes(&[b"GET".as_slice(), b"\xff"]), None);
        assert!(
            matches!(redis.command(&["GET", "set"]), Value::Error(text) if text.starts_with("WRONGTYPE"))
        );
    }

    #[test]
    fn command_calls_include_calls_in_scripts() {
        let redis = RedisServer::start();
        let before = redis.command_calls();
        assert_eq!(redis.command_calls(), before);
        redis.command(&["EVAL", "return redis.call('INCR', 'n')", "0"]);
        assert_eq!(redis.command_calls(), before + 2);
    }

    #[test]
    fn an_append_only_server_keeps_keys_across_a_restart() {
        let mut redis = RedisServer::start_with(&["--appendonly", "yes"]);
        redis.command(&["SET", "key", "stopped"]);
        redis.restart();
        assert_eq!(redis.bytes(&["GET", "key"]), Some(b"stopped".to_vec()));
        redis.command(&["SET", "key", "killed"]);
        redis.kill();
        redis.restart();
        assert_eq!(redis.bytes(&["GET", "key"]), Some(b"killed".to_vec()));
    }

    #[test]
    fn a_server_without_persistence_loses_keys_on_restart() {
        let mut redis = RedisServer::start();
        redis.command(&["SET", "key", "value"]);
        redis.stop();
        redis.restart();
        assert_eq!(redis.bytes(&["GET", "key"]), None);
    }

    #[test]
    fn dropping_a_server_stops_it() {
        let redis = RedisServer::start();
        let (address, folder) = (redis.address(), redis.folder.path().to_owned());
        drop(redis);
        assert!(TcpStream::connect(address).is_err());
        assert!(!folder.exists());
    }
}
