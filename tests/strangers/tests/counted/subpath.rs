//! nginx serves an application under a subpath. The counters must match the nginx access log, and visitors
//! must be the clients of nginx.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use http::Method;
use tempfile::TempDir;
use tests::{LIMIT, Process, until};
use tokio::net::TcpStream;

use crate::support::{Tally, TestApp, Visit, class, random_visits};

#[tokio::test]
async fn counts_behind_nginx_match_the_access_log() {
    let mut shop = TestApp::start(env!("CARGO_BIN_EXE_subpath"), &[]).await;
    let (nginx, address) = Nginx::start(shop.address).await;
    let mut visits = random_visits(
        400,
        9,
        &[
            &|_| Visit::new("GET", "/below/", "/"),
            &|random| Visit::new("GET", format!("/below/items/{}", random.u16(..)), "/items/{id}"),
            &|random| Visit::new("POST", format!("/below/items/{}", random.u16(..)), "/items/{id}"),
            &|_| Visit::new("DELETE", "/below/items/7", "/items/{id}"),
            &|random| Visit::new("GET", format!("/below/{}.php", random.u16(..)), "rest"),
            // nginx doesn't strip the prefix from this path.
            &|_| Visit::new("GET", "/shop/about", "not stripped"),
            &|_| Visit::new("GET", "/shop/nothing", "not stripped"),
        ],
    );
    // Values written by the client are to the left of the trusted hop.
    for ((last, spoofed), visit) in (2..=6).cycle().zip((0..=255).cycle()).zip(&mut visits) {
        let spoofed = format!("192.0.2.{spoofed}");
        *visit = visit.clone().from([127, 0, 0, last]).header("x-forwarded-for", &spoofed);
    }
    shop.request_via(address, visits).await;
    shop.check().await;
    let logged = nginx.end().await;
    assert_eq!(logged, shop.tally);
    assert_eq!(shop.visitors().await, 5);
}

/// An nginx process with a temporary folder, as a proxy for a server.
struct Nginx {
    program: Process,
    folder: TempDir,
}

impl Nginx {
    async fn start(behind: SocketAddr) -> (Self, SocketAddr) {
        let folder = tempfile::tempdir().expect("a folder");
        // If nginx is started by root, the workers run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let root = folder.path().display();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        let configuration = format!(
            "daemon off; worker_processes 1; pid {root}/pid; error_log stderr;
            events {{}}
            http {{
                log_format counted '$status $request_method $uri'; access_log {root}/access.log counted;
                client_body_temp_path {root}/a; proxy_temp_path {root}/b; fastcgi_temp_path {root}/c;
                uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;
                server {{
                    listen 127.0.0.1:{port};
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    location /below/ {{ proxy_pass http://{behind}/; }}
                    location /shop/ {{ proxy_pass http://{behind}; }}
                }}
            }}"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration).expect("a file");
        // The `sbin` folders might not be in the `PATH` of other users than root.
        let nginx =
            ["/usr/sbin/nginx", "/usr/local/sbin/nginx"].into_iter().find(|nginx| Path::new(nginx).exists());
        let mut command = Command::new(nginx.unwrap_or("nginx"));
        command.arg("-p").arg(folder.path()).arg("-e").arg("stderr").arg("-c").arg(file);
        let program = Process::start(&mut command);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        until("nginx listens", LIMIT, async || TcpStream::connect(address).await.is_ok()).await;
        (Self { program, folder }, address)
    }

    /// Stops nginx and returns the tally of the access log.
    async fn end(mut self) -> Tally {
        self.program.terminate();
        self.program.wait(LIMIT).await;
        let log = fs::read_to_string(self.folder.path().join("access.log")).expect("a log");
        let mut tally = Tally::default();
        for line in log.lines() {
            let [status, method, path] = line.split(' ').collect::<Vec<_>>().try_into().expect("three words");
            let counter = match path.strip_prefix("/below") {
                Some("/") => "/",
                Some(path) if path.starts_with("/items/") => "/items/{id}",
                Some(_) => "rest",
                None => "not stripped",
            };
            let method: Method = method.parse().expect("a method");
            tally.add(&method, Some(counter), &class(status.parse().expect("a status")));
        }
        tally
    }
}
