//! An nginx server that is started for one test.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::redis::{MAX_PORT_ATTEMPTS, free_port};
use crate::until::becomes_true;

/// Upper bound for the time that the server may take to start.
const LIMIT: Duration = crate::until::LIMIT;

/// An `nginx` process on a free loopback port, with a temporary folder for the files. It will be killed on
/// drop. All methods block.
#[derive(Debug)]
pub struct Nginx {
    // Must be declared before the folder: fields are dropped in this order, and the server writes to the
    // folder.
    _child: OwnedChild,
    folder: TempDir,
    address: SocketAddr,
}

impl Nginx {
    /// Starts a server with these `location` blocks.
    ///
    /// # Panics
    ///
    /// Panics with the server log if the server does not respond within two minutes.
    #[must_use]
    pub fn start(locations: &str) -> Self {
        Self::start_with("", locations)
    }

    /// Starts a server with additional directives that are placed in front of the `server` block.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    #[must_use]
    pub fn start_with(directives: &str, locations: &str) -> Self {
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        for _ in 0..MAX_PORT_ATTEMPTS {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
            if let Some(child) = launch(folder.path(), address, directives, locations) {
                return Self { _child: child, folder, address };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("nginx did not start:\n{log}");
    }

    /// Returns the listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the path to a file in the server folder, e.g. a log that the directives write.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Starts a server and waits for it to listen. Returns `None` if it exits early.
fn launch(folder: &Path, address: SocketAddr, directives: &str, locations: &str) -> Option<OwnedChild> {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};"))
        .concat();
    let configuration = format!(
        "daemon off; master_process off; pid pid; error_log stderr; events {{}}\n\
         http {{ access_log off; {temporary}\n{directives}\nserver {{ listen {address};\n{locations}\n}} }}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).expect("our folder is writable");
    let log = File::create(folder.join("log")).expect("our folder is writable");
    let mut child = OwnedChild::spawn(
        Command::new(program()).args(["-e", "stderr", "-c", "nginx.conf", "-p"]).arg(folder).stderr(log),
    )
    .expect("nginx is installed: tests/run does it");
    let listens = || TcpStream::connect(address).is_ok();
    becomes_true(LIMIT, || child.status().is_some() || listens());
    (child.status().is_none() && listens()).then_some(child)
}

/// Debian installs nginx to a folder that is not on the `PATH` of regular users.
fn program() -> &'static str {
    if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" }
}
