//! A real nginx of a test's own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::OwnedChild;
use crate::redis::{PORTS, free_port};
use crate::until::settles;

/// How long the server may take to come up.
const LIMIT: Duration = crate::until::LIMIT;

/// An `nginx` on a free port of the loopback address, its files in a folder of its own. It is gone when this is
/// dropped. Its methods block.
#[derive(Debug)]
pub struct Nginx {
    // Before the folder: fields are dropped in this order, and the server writes there.
    _child: OwnedChild,
    folder: TempDir,
    address: SocketAddr,
}

impl Nginx {
    /// Starts a server with these `location` blocks.
    ///
    /// # Panics
    ///
    /// When it does not answer within two minutes; with its log.
    #[must_use]
    pub fn start(locations: &str) -> Self {
        Self::start_with("", locations)
    }

    /// Starts a server with these directives before its `server` block, and these in it.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(directives: &str, locations: &str) -> Self {
        let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
        for _ in 0..PORTS {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
            if let Some(child) = launch(folder.path(), address, directives, locations) {
                return Self { _child: child, folder, address };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("nginx did not start:\n{log}");
    }

    /// The address that it listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of this name, to which its directives let it write.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Starts a server and waits until it listens; `None` when it ends before that.
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
    settles(LIMIT, || child.status().is_some() || listens());
    (child.status().is_none() && listens()).then_some(child)
}

/// Debian has it where the shells of users do not look.
fn program() -> &'static str {
    if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" }
}
