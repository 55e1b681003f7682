//! A real MariaDB server of a test's own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::redis::{PORTS, free_port};
use crate::shared::{Shared, new_name};
use crate::until::block_until;

/// Where Debian has it, which is not on everybody's PATH.
const SERVER: &str = "/usr/sbin/mariadbd";

/// The kernel has places for a few servers only that do without it.
const SLOWER: &str = "--innodb-use-native-aio=0";

/// How long the server may take to come up.
const LIMIT: Duration = crate::until::LIMIT;

/// A `mariadbd` on a free port of the loopback address, its data in a folder of its own, with an empty
/// database. It is gone when this is dropped. Its methods block.
#[derive(Debug)]
pub struct MariaDb {
    // Before the folder: fields are dropped in this order, and the server writes there.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
    arguments: &'static [&'static str],
}

impl MariaDb {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When it does not answer within two minutes; with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more arguments.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(arguments: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(["--skip-name-resolve", "--user=root", SLOWER])
            .arg(format!("--datadir={}", folder.path().join("data").display()))
            // Several servers would take the same names there.
            .arg(format!("--tmpdir={}", folder.path().display()))
            .output()
            .expect("mariadb-install-db is on the PATH: tests/run installs it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..PORTS {
            let port = free_port();
            if let Some(child) = launch(folder.path(), port, arguments) {
                return Self { child, folder, port, arguments };
            }
        }
        panic!("mariadbd did not start:\n{}", log(folder.path()));
    }

    /// The server that other tests of this process have at the moment, or one that is started for them and
    /// this one. None of them may end it or change its settings: each has a [database](Self::database) of its own.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Shared<MariaDb> = Shared::new();
        SHARED.get(Self::start)
    }

    /// The address of the database as `sqlx` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("access")
    }

    /// The address of a new database in this server, which is empty.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn database(&self) -> String {
        let name = new_name();
        let made = statement(self.folder.path(), &format!("CREATE DATABASE {name}")).status();
        assert!(made.expect("mariadb is on the PATH").success(), "{}", log(self.folder.path()));
        self.url_of(&name)
    }

    /// The address where the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The id of the server's process.
    #[must_use]
    pub fn id(&mut self) -> u32 {
        self.child.process().id()
    }

    /// The folder with the server's data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }

    /// Ends the server at once, by SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts it again, on the same port and the same data; ends it first if it runs.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn restart(&mut self) {
        self.kill();
        let child = launch(self.folder.path(), self.port, self.arguments);
        self.child = child.unwrap_or_else(|| panic!("mariadbd did not start:\n{}", log(self.folder.path())));
    }
}

/// Starts a server and waits until it answers; `None` when it ends before that.
fn launch(folder: &Path, port: u16, arguments: &[&str]) -> Option<OwnedChild> {
    let output = File::create(folder.join("log")).expect("our folder is writable");
    let errors = output.try_clone().expect("an open file can be shared");
    let mut child = OwnedChild::spawn(
        Command::new(SERVER)
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=2", SLOWER])
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
            let asked =
                statement(folder, "CREATE DATABASE IF NOT EXISTS access").stderr(Stdio::null()).status();
            asked.expect("mariadb is on the PATH: tests/run installs it").success()
        }
    });
    child.status().is_none().then_some(child)
}

/// The client, to be run with a statement.
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
