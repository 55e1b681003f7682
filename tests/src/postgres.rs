//! A PostgreSQL server that is started for one test.

use std::env;
use std::ffi::OsStr;
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
use crate::until::{becomes_true, block_until};

/// Upper bound for the time that the server may take to start or to stop.
const LIMIT: Duration = crate::until::LIMIT;

/// A `postgres` process on a free loopback port, with a temporary folder for the data. It will be stopped on
/// drop. All methods block.
///
/// The server refuses to run as root, so if the tests run as root, it runs as the user `postgres`.
#[derive(Debug)]
pub struct Postgres {
    // Must be declared before the folder: fields are dropped in this order, and the server writes to the
    // folder.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
    /// Declared last, because a turn ends when the server is gone.
    turn: Option<Turn>,
}

impl Postgres {
    /// Starts a server. If other tests use as many databases and browsers as there are cores, this waits.
    ///
    /// # Panics
    ///
    /// Panics with the server log if the server does not respond within two minutes.
    #[must_use]
    pub fn start() -> Self {
        let turn = Some(Turn::take());
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        if is_root() {
            let changed = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(changed.expect("chown is installed").success(), "the user postgres exists");
        }
        let made = program("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"])
            .arg("--pgdata")
            .arg(folder.path().join("data"))
            .output()
            .expect("initdb is installed: tests/run does it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..MAX_PORT_ATTEMPTS {
            let port = free_port();
            if let Some(child) = launch(folder.path(), port) {
                return Self { child, folder, port, turn };
            }
        }
        panic!("postgres did not start:\n{}", log(folder.path()));
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
        static SHARED: Shared<Postgres> = Shared::new();
        SHARED.get(|| {
            let mut server = Self::start();
            drop(server.turn.take());
            server
        })
    }

    /// Returns the database URL for `sqlx`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates an empty database, and returns the URL.
    ///
    /// # Panics
    ///
    /// Panics if the database can't be created.
    #[must_use]
    pub fn database(&self) -> String {
        let name = new_name();
        let port = self.port.to_string();
        let made = program("createdb")
            .args(["--username=postgres", "--host=127.0.0.1", "--port", &port, &name])
            .output()
            .expect("createdb comes with the server");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
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
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Stops the server immediately, like a crash, and waits for it to exit.
    ///
    /// # Panics
    ///
    /// Panics if the server is still running after two minutes.
    pub fn kill(&mut self) {
        // SIGKILL would leak the child processes and a shared memory segment.
        self.child.signal("QUIT");
        block_until("postgres is gone", LIMIT, || self.child.status().is_some());
    }

    /// Restarts the server on the same port with the same data.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn restart(&mut self) {
        self.kill();
        let child = launch(self.folder.path(), self.port);
        self.child = child.unwrap_or_else(|| panic!("postgres did not start:\n{}", log(self.folder.path())));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.child.signal("QUIT");
        becomes_true(LIMIT, || self.child.status().is_some());
    }
}

/// Starts a server and waits for it to respond. Returns `None` if it exits early.
fn launch(folder: &Path, port: u16) -> Option<OwnedChild> {
    let output = File::create(folder.join("log")).expect("our folder is writable");
    let errors = output.try_clone().expect("an open file can be shared");
    let port = port.to_string();
    let mut child = OwnedChild::spawn(
        program("postgres")
            .args(["-F", "-h", "127.0.0.1", "-p", &port, "-k"])
            .arg(folder)
            .arg("-D")
            .arg(folder.join("data"))
            .stdout(output)
            .stderr(errors),
    )
    .expect("postgres is installed: tests/run does it");
    block_until("postgres answers", LIMIT, || {
        child.status().is_some() || {
            let result =
                program("pg_isready").args(["-p", &port, "-h"]).arg(folder).stdout(Stdio::null()).status();
            result.expect("pg_isready comes with the server").success()
        }
    });
    child.status().is_none().then_some(child)
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Returns a command for a server program, to be run as a non-root user. Debian does not install these to the
/// `PATH`.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin").join(name)).max();
    let path = newest.unwrap_or_else(|| PathBuf::from(name));
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    command.current_dir(env::temp_dir());
    command
}

fn is_root() -> bool {
    let result = Command::new("id").arg("-u").output().expect("id is installed");
    OsStr::new("0\n") == OsStr::new(&*String::from_utf8_lossy(&result.stdout))
}
