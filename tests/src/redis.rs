//! A real Redis server of a test's own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::noon::let_an_hour_end;
use crate::resp::{self, Value};

/// How long a server may take to come up, to go, or to answer.
const LIMIT: Duration = crate::until::LIMIT;

/// How long to rest between two looks at a server that comes or goes.
const PAUSE: Duration = Duration::from_millis(5);

/// How many ports are tried before the fault is not the port's.
pub(crate) const PORTS: usize = 5;

/// The first of the ports on which servers listen, and how many there are; the buses of a cluster are above
/// them, and the ports of the kernel's choice above these.
const FIRST_PORT: u16 = 12_000;
const FREE_PORTS: u16 = 10_000;

/// A `redis-server` on a free port of the loopback address, its data in a folder of its own.
///
/// It persists nothing unless told so ([`start_with`](Self::start_with)), and is gone when this
/// is dropped. Its methods block and go straight to the server, never through a proxy: they use
/// the socket in its folder, whatever the port speaks.
#[derive(Debug)]
pub struct RedisServer {
    // Before the folder: fields are dropped in this order, and the server writes there.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server that keeps its data in memory only.
    ///
    /// # Panics
    ///
    /// When it does not answer within two minutes; with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments, such as `&["--appendonly", "yes"]`; they win over
    /// those of [`start`](Self::start). The default user has to stay open.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), also when the server does not like the arguments.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_on(free_port, |_, port| plain(port).chain(owned(arguments)).collect())
    }

    /// Starts a server on a port that `port` chooses, with the arguments that `arguments` makes of
    /// its folder and the port.
    pub(crate) fn start_on(port: impl Fn() -> u16, arguments: impl Fn(&Path, u16) -> Vec<String>) -> Self {
        let_an_hour_end();
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        for _ in 0..PORTS {
            let port = port();
            let arguments = arguments(folder.path(), port);
            // Between the look and the start somebody else may have taken the port.
            if let Some(child) = launch(folder.path(), &arguments, is_pong) {
                return Self { child, folder, port, arguments };
            }
        }
        panic!("redis-server did not start:\n{}", log(folder.path()));
    }

    /// The port, the same for life.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, the same for life.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        address(self.port)
    }

    /// The address as Redis clients take it: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The socket as `fred` takes it: `redis+unix:///PATH`.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The socket in the file system, where it listens as well; the same for life.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// Stops the server cleanly, by SIGTERM, and waits until it is gone.
    ///
    /// # Panics
    ///
    /// When it is still there after two minutes.
    pub fn stop(&mut self) {
        self.child.terminate();
        let deadline = Instant::now() + LIMIT;
        while self.child.status().is_none() {
            assert!(Instant::now() < deadline, "redis-server did not stop:\n{}", log(self.folder.path()));
            thread::sleep(PAUSE);
        }
    }

    /// Ends the server at once, by SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts the server again, on the same port and the same data; stops it first if it runs.
    ///
    /// # Panics
    ///
    /// When it does not answer within two minutes; with its log.
    pub fn restart(&mut self) {
        self.restart_until(is_pong);
    }

    /// Starts the server again as [`restart`](Self::restart) does, without waiting until all data are loaded.
    ///
    /// # Panics
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_loading(&mut self) {
        self.restart_until(|_| true);
    }

    fn restart_until(&mut self, ready: fn(&Value) -> bool) {
        self.stop();
        let deadline = Instant::now() + LIMIT;
        loop {
            // A server that was killed may leave its port taken for a moment.
            if let Some(child) = launch(self.folder.path(), &self.arguments, ready) {
                self.child = child;
                return;
            }
            assert!(
                Instant::now() < deadline,
                "redis-server did not start again:\n{}",
                log(self.folder.path())
            );
            thread::sleep(PAUSE);
        }
    }

    /// Runs one command, on a connection of its own, and returns what the server answers.
    ///
    /// # Panics
    ///
    /// When there is no answer.
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Value {
        self.try_command(words).expect("a server that runs answers")
    }

    /// As [`command`](Self::command), for a server that may be gone.
    pub(crate) fn try_command(&self, words: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        ask(&self.socket(), &resp::encode(words), 1)
    }

    /// As [`command`](Self::command), said right after `ASKING`: of a slot that is on its way here.
    pub(crate) fn command_asking(&self, words: &[impl AsRef<[u8]>]) -> Value {
        let both = [resp::encode(&["ASKING"]), resp::encode(words)].concat();
        ask(&self.socket(), &both, 2).expect("a server that runs answers")
    }

    /// The integer that a command answers, or the decimal one in the string that it answers.
    ///
    /// # Panics
    ///
    /// When the answer is anything else.
    pub fn int(&self, words: &[impl AsRef<[u8]>]) -> i64 {
        let answer = self.command(words);
        answer
            .text()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("not an integer: {answer:?}"))
    }

    /// The array of strings (or of integers, as text) that a command answers.
    ///
    /// # Panics
    ///
    /// When the answer is anything else, or a string is not UTF-8.
    pub fn strings(&self, words: &[impl AsRef<[u8]>]) -> Vec<String> {
        let answer = self.command(words);
        let Value::Array(values) = &answer else {
            panic!("not an array: {answer:?}");
        };
        let texts: Option<Vec<String>> = values.iter().map(Value::text).collect();
        texts.unwrap_or_else(|| panic!("not strings alone: {answer:?}"))
    }

    /// The string of bytes that a command answers; `None` for nil.
    ///
    /// # Panics
    ///
    /// When the answer is anything else.
    pub fn bytes(&self, words: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
        match self.command(words) {
            Value::Bulk(bytes) => Some(bytes),
            Value::Nil => None,
            answer => panic!("not a string: {answer:?}"),
        }
    }

    /// The number of commands that the server has run since it started, those inside of scripts included.
    ///
    /// `INFO` is left out, so that two readings differ by what was between them.
    pub fn command_calls(&self) -> u64 {
        let statistics = self.command(&["INFO", "commandstats"]);
        let statistics = statistics.text().expect("INFO answers text");
        statistics
            .lines()
            .filter(|line| line.starts_with("cmdstat_") && !line.starts_with("cmdstat_info:"))
            .filter_map(|line| line.split_once(":calls=")?.1.split_once(','))
            .map(|(calls, _)| calls.parse::<u64>().expect("calls are counted in integers"))
            .sum()
    }
}

/// The arguments of a server that listens on `port` and keeps its data in memory only.
pub(crate) fn plain(port: u16) -> impl Iterator<Item = String> {
    owned(&["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]).chain([port.to_string()])
}

/// The words, each as a string of its own.
pub(crate) fn owned(words: &[&str]) -> impl Iterator<Item = String> {
    words.iter().map(|&word| word.to_owned())
}

/// A port that was free just now, and that no other test of this process is given.
///
/// Below those from which the kernel takes the ports of clients and of listeners that leave the choice to it:
/// they cannot take a server's port before it listens, or while it is away.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Another process of tests begins elsewhere.
    let first = u16::try_from(process::id() % 100).expect("less than 100") * (FREE_PORTS / 100);
    loop {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + number % FREE_PORTS;
        if TcpListener::bind(address(port)).is_ok() {
            return port;
        }
    }
}

/// The address of that port.
pub(crate) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The server: `redis-server`, or the program that `COUNTER_REDIS_SERVER` names.
fn program() -> OsString {
    env::var_os("COUNTER_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

fn is_pong(answer: &Value) -> bool {
    matches!(answer, Value::Simple(answer) if answer == "PONG")
}

/// Starts a server and waits until its answer to a `PING` is as wanted; `None` when it ends before that.
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
    let deadline = Instant::now() + LIMIT;
    while child.status().is_none() {
        // The socket is ours alone, and a server that answers there has got its port before.
        if ask(&socket(folder), &resp::encode(&["PING"]), 1).is_ok_and(|answer| ready(&answer)) {
            return Some(child);
        }
        assert!(Instant::now() < deadline, "redis-server does not answer:\n{}", log(folder));
        thread::sleep(PAUSE);
    }
    None
}

/// Sends so many commands on a connection of its own, and returns the last answer.
fn ask(socket: &Path, commands: &[u8], count: usize) -> io::Result<Value> {
    let mut server = UnixStream::connect(socket)?;
    server.set_read_timeout(Some(LIMIT))?;
    server.write_all(commands)?;
    let mut answers = Vec::new();
    let mut left = count;
    let mut piece = [0; 16 * 1024];
    loop {
        let length = match server.read(&mut piece) {
            // A machine that was stopped and goes on interrupts a read that has a time-out.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answers.extend_from_slice(&piece[..length]);
        while let Some((value, length)) = resp::decode(&answers).map_err(io::Error::other)? {
            left -= 1;
            if left == 0 {
                return Ok(value);
            }
            answers.drain(..length);
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
    fn a_command_is_answered_by_its_value() {
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
    fn calls_are_counted_with_those_inside_of_scripts() {
        let redis = RedisServer::start();
        let before = redis.command_calls();
        assert_eq!(redis.command_calls(), before);
        redis.command(&["EVAL", "return redis.call('INCR', 'n')", "0"]);
        assert_eq!(redis.command_calls(), before + 2);
    }

    #[test]
    fn an_append_only_server_keeps_its_keys_over_a_restart() {
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
    fn a_server_without_persistence_forgets_over_a_restart() {
        let mut redis = RedisServer::start();
        redis.command(&["SET", "key", "value"]);
        redis.stop();
        redis.restart();
        assert_eq!(redis.bytes(&["GET", "key"]), None);
    }

    #[test]
    fn a_dropped_server_is_gone() {
        let redis = RedisServer::start();
        let (address, folder) = (redis.address(), redis.folder.path().to_owned());
        drop(redis);
        assert!(TcpStream::connect(address).is_err());
        assert!(!folder.exists());
    }
}
