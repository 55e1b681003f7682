//! A real PostgreSQL server of a test's own.

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
use crate::redis::{PORTS, free_port};
use crate::shared::{Shared, new_name};
use crate::until::{block_until, settles};

/// How long the server may take to come up, or to go.
const LIMIT: Duration = crate::until::LIMIT;

/// A `postgres` on a free port of the loopback address, its data in a folder of its own. It is gone when
/// this is dropped. Its methods block.
///
/// The server refuses to run as root, so that it runs as the user `postgres` there.
#[derive(Debug)]
pub struct Postgres {
    // Before the folder: fields are dropped in this order, and the server writes there.
    child: OwnedChild,
    folder: TempDir,
    port: u16,
}

impl Postgres {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When it does not answer within two minutes; with its log.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        if is_root() {
            let given = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(given.expect("there is chown").success(), "there is a user of this name");
        }
        let made = program("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"])
            .arg("--pgdata")
            .arg(folder.path().join("data"))
            .output()
            .expect("initdb is installed: tests/run does it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..PORTS {
            let port = free_port();
            if let Some(child) = launch(folder.path(), port) {
                return Self { child, folder, port };
            }
        }
        panic!("postgres did not start:\n{}", log(folder.path()));
    }

    /// The server that other tests of this process have at the moment, or one that is started for them and
    /// this one. None of them may end it or change its settings: each has a [database](Self::database) of its own.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Shared<Postgres> = Shared::new();
        SHARED.get(Self::start)
    }

    /// The address of the database as `sqlx` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The address of a new database in this server, which is empty.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
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
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Ends the server at once, as if it crashed, and waits until it is gone.
    ///
    /// # Panics
    ///
    /// When it is still there after two minutes.
    pub fn kill(&mut self) {
        // By SIGKILL it would leave its children, and a piece of shared memory.
        self.child.signal("QUIT");
        block_until("postgres is gone", LIMIT, || self.child.status().is_some());
    }

    /// Starts it again, on the same port and the same data; ends it first if it runs.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn restart(&mut self) {
        self.kill();
        let child = launch(self.folder.path(), self.port);
        self.child = child.unwrap_or_else(|| panic!("postgres did not start:\n{}", log(self.folder.path())));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.child.signal("QUIT");
        settles(LIMIT, || self.child.status().is_some());
    }
}

/// Starts a server and waits until it answers; `None` when it ends before that.
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
            let asked =
                program("pg_isready").args(["-p", &port, "-h"]).arg(folder).stdout(Stdio::null()).status();
            asked.expect("pg_isready comes with the server").success()
        }
    });
    child.status().is_none().then_some(child)
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// A program of the server, which Debian keeps out of the PATH; as a user that it likes.
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
    let asked = Command::new("id").arg("-u").output().expect("there is id");
    OsStr::new("0\n") == OsStr::new(&*String::from_utf8_lossy(&asked.stdout))
}
