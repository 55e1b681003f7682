//! A MariaDB server that is started for one test.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::redis::{MAX_PORT_ATTEMPTS, free_port};
use crate::shared::{Shared, new_name};
use crate::turn::Turn;
use crate::until::block_until;

/// Path of the server on Debian, which might not be on the `PATH`.
const SERVER: &str = "/usr/sbin/mariadbd";

/// Disables native asynchronous I/O, because the kernel only has capacity for a few servers that use it.
const NO_NATIVE_AIO: &str = "--innodb-use-native-aio=0";

/// Upper bound for the time that the server may take to start.
const LIMIT: Duration = crate::until::LIMIT;

/// A `mariadbd` process on a free loopback port, with an empty database in a temporary folder. It will be
/// killed on drop. All methods block.
#[derive(Debug)]
pub struct MariaDb {
    // Must be declared before the folder: fields are dropped in this order, and the server writes to the
    // folder.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
    arguments: &'static [&'static str],
    /// Declared last, because a turn ends when the server is gone.
    turn: Option<Turn>,
}

impl MariaDb {
    /// Starts a server. If other tests use as many databases and browsers as there are cores, this waits.
    ///
    /// # Panics
    ///
    /// Panics with the server log if the server does not respond within two minutes.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    #[must_use]
    pub fn start_with(arguments: &'static [&'static str]) -> Self {
        let turn = Some(Turn::take());
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        let created = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(["--skip-name-resolve", "--user=root", NO_NATIVE_AIO])
            .arg(format!("--datadir={}", folder.path().join("data").display()))
            // With a shared folder, the files of servers that start in parallel would collide.
            .arg(format!("--tmpdir={}", folder.path().display()))
            .output()
            .expect("mariadb-install-db is on the PATH: tests/run installs it");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        for _ in 0..MAX_PORT_ATTEMPTS {
            let port = free_port();
            if let Some(child) = launch(folder.path(), port, arguments) {
                return Self { child, folder, port, arguments, turn };
            }
        }
        panic!("mariadbd did not start:\n{}", log(folder.path()));
    }

    /// Returns a server that is shared by the tests of this process. It will be started if it is not running.
    ///
    /// Tests must not stop the server or change the settings, and should use a new
    /// [database](Self::database).
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Shared<MariaDb> = Shared::new();
        SHARED.get(|| {
            let mut server = Self::start();
            drop(server.turn.take());
            server
        })
    }

    /// Returns the database URL for `sqlx`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("access")
    }

    /// Creates an empty database, and returns the URL.
    ///
    /// # Panics
    ///
    /// Panics if the database can't be created.
    #[must_use]
    pub fn database(&self) -> String {
        let name = new_name();
        let created = statement(self.folder.path(), &format!("CREATE DATABASE {name}")).status();
        assert!(created.expect("mariadb is on the PATH").success(), "{}", log(self.folder.path()));
        self.url_of(&name)
    }

    /// Returns the listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the id of the server process.
    #[must_use]
    pub fn id(&mut self) -> u32 {
        self.child.process().id()
    }

    /// Returns the data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }

    /// Kills the server with SIGKILL, and waits for it to exit.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Restarts the server on the same port with the same data.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn restart(&mut self) {
        self.kill();
        let child = launch(self.folder.path(), self.port, self.arguments);
        self.child = child.unwrap_or_else(|| panic!("mariadbd did not start:\n{}", log(self.folder.path())));
    }
}

/// Starts a server and waits for it to respond. Returns `None` if it exits early.
fn launch(folder: &Path, port: u16, arguments: &[&str]) -> Option<OwnedChild> {
    let output = File::create(folder.join("log")).expect("our folder is writable");
    let errors = output.try_clone().expect("an open file can be shared");
    let mut child = OwnedChild::spawn(
        Command::new(SERVER)
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=2", NO_NATIVE_AIO])
            .arg(format!("--port={port}"))
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--tmpdir={}", folder.display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg(format!("--socket={}", socket(folder).display()))
            .args(arguments)
            .stdout(output)
            .stderr(errors),
    )
    .expect("mariadbd is there: tests/run installs it");
    block_until("mariadbd answers", LIMIT, || {
        child.status().is_some() || {
            let status =
                statement(folder, "CREATE DATABASE IF NOT EXISTS access").stderr(Stdio::null()).status();
            status.expect("mariadb is on the PATH: tests/run installs it").success()
        }
    });
    child.status().is_none().then_some(child)
}

/// Returns a client command that will run this statement.
fn statement(folder: &Path, statement: &str) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--user=root", "-e", statement]);
    client.arg(format!("--socket={}", socket(folder).display()));
    client
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}
