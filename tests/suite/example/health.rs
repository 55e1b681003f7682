//! The command `health`.

use std::net::SocketAddr;
use std::process::Output;

use tests::process::example_command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::program::Site;

#[tokio::test]
async fn a_running_site_is_healthy() {
    let site = Site::start(&[]).await;
    let output = health(site.address, &[]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&*output.stdout, &*output.stderr), (&b""[..], &b""[..]));
}

#[tokio::test]
async fn a_site_that_listens_on_all_interfaces_is_checked_via_loopback() {
    let site = Site::start(&[]).await;
    for address in ["0.0.0.0", "[::]"] {
        let mut command = example_command().await;
        let address = format!("{address}:{}", site.address.port());
        let output = command.arg("health").env("COUNTER_LISTEN", &address).output().expect("it starts");
        // The site only listens on 127.0.0.1.
        assert_eq!(output.status.success(), address.starts_with("0.0.0.0"), "{address}: {output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || message.contains("--listen [::]:"), "{message}");
    }
}

#[tokio::test]
async fn a_site_without_a_response_is_unhealthy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the address");
    let output = health(address, &["--timeout", "0.1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "example-app: --listen {address}: no response within 100ms; check that the site listens on this address, and \
             its log\n"
        )
    );
}

#[tokio::test]
async fn a_site_that_responds_with_an_error_is_unhealthy() {
    for (answer, reported) in
        [("HTTP/1.1 503 Service Unavailable\r\n\r\n", "503"), ("", "\"\""), ("200", "200")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the address");
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.read(&mut [0; 1024]).await.expect("a request");
            stream.write_all(answer.as_bytes()).await.expect("the answer is sent");
        };
        let (output, ()) = tokio::join!(health(address, &["--timeout", "60"]), serve);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("unexpected response"), "{output:?}");
        assert!(message.contains(reported), "{message}");
    }
}

async fn health(address: SocketAddr, arguments: &[&str]) -> Output {
    let mut command = example_command().await;
    command.args(["health", "--listen", &address.to_string()]).args(arguments);
    tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts")
}
