//! A real MariaDB server of a test's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::redis::free_port;
use crate::until::block_until;

/// Where Debian has it, which is not on everybody's PATH.
const SERVER: &str = "/usr/sbin/mariadbd";

/// The kernel has places for a few servers only that do without it.
const SLOWER: &str = "--innodb-use-native-aio=0";

/// How long the server may take to come up.
const LIMIT: Duration = Duration::from_secs(30);

/// A `mariadbd` on a free port of the loopback address, its data in a folder of its own, with an empty
/// database. It is gone when this is dropped. Its methods block.
#[derive(Debug)]
pub struct MariaDb {
    // Before the folder: fields are dropped in this order, and the server writes there.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
}

impl MariaDb {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When it does not answer within thirty seconds; with its log.
    #[must_use]
    pub fn start() -> Self {
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
        let port = free_port();
        Self { child: launch(folder.path(), port), folder, port }
    }

    /// The address of the database as `sqlx` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/access", self.port)
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
        self.child = launch(self.folder.path(), self.port);
    }
}

fn launch(folder: &Path, port: u16) -> OwnedChild {
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
            .stdout(output)
            .stderr(errors),
    )
    .expect("mariadbd is there: tests/run installs it");
    block_until("mariadbd answers", LIMIT, || {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(child.status().is_none(), "mariadbd did not start:\n{}", log());
        let asked = Command::new("mariadb")
            .args(["--no-defaults", "--user=root", "-e", "CREATE DATABASE IF NOT EXISTS access"])
            .arg(format!("--socket={}", socket(folder).display()))
            .stderr(Stdio::null())
            .status();
        asked.expect("mariadb is on the PATH: tests/run installs it").success()
    });
    child
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}
