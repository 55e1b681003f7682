//! The example with alerts.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use tests::http::get;
use tests::process::example_command;
use tests::tls::Certificates;
use tests::{Nginx, RedisServer, until};
use tokio::net::TcpListener;

use super::program::{LIMIT, Site, TOKEN, start};

const RULES: &str = r#"[{ "name": "articles", "precision": 1, "resolve_after": 3, "pause": 3600,
    "when": { "above": { "counter": "/articles/{id}", "hits": 0 } } }]"#;

async fn site(
    redis: &RedisServer,
    folder: &TempDir,
    arguments: &[&str],
    authority: Option<&Certificates>,
) -> Site {
    let rules = folder.path().join("rules.json");
    fs::write(&rules, RULES).expect("room on the disk");
    let mut command = example_command().await;
    if let Some(certificates) = authority {
        command.env("SSL_CERT_FILE", certificates.authority());
    }
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin-token",
        TOKEN,
        "--redis",
        &redis.url(),
        "--alert-rules",
    ]);
    let (process, address) = start(command.arg(rules).args(arguments)).await;
    Site { process, address }
}

/// Starts a webhook receiver that rejects the first requests, and returns the received messages.
async fn receiver() -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let messages = Arc::clone(&received);
    let service = Router::new().fallback(move |body: Bytes| {
        let mut messages = messages.lock().expect("no panic");
        messages.push(serde_json::from_slice(&body).expect("JSON"));
        let status = if messages.len() == 1 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        std::future::ready(status)
    });
    tokio::spawn(async { axum::serve(listener, service).await.expect("it serves") });
    (address, received)
}

#[tokio::test]
async fn an_alert_is_delivered_although_one_of_three_instances_is_killed() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let (receiver, received) = receiver().await;
    let webhook = format!("http://{receiver}/");
    let mut sites = Vec::new();
    for _ in 0..3 {
        sites.push(site(&redis, &folder, &["--webhook", &webhook], None).await);
    }
    assert_eq!(get(sites[1].address, "/articles/1", &[]).await.status, 200);
    until("the hit is in Redis", LIMIT, async || {
        sites[1].fetch("ledger").await["hits"]["applied"].as_u64() >= Some(1)
    })
    .await;
    sites[1].process.kill();
    let of = |kind: &str| {
        let received = received.lock().expect("no panic");
        received.iter().filter(|alert| alert["kind"] == kind).cloned().collect::<Vec<_>>()
    };
    until("it has arrived and is over", LIMIT, async || {
        of("raised").len() >= 2 && !of("resolved").is_empty()
    })
    .await;
    let (raised, resolved) = (of("raised"), of("resolved"));
    assert!(raised.iter().all(|alert| alert["id"] == raised[0]["id"]), "{raised:?}");
    assert!(resolved.iter().all(|alert| alert["id"] == resolved[0]["id"]), "{resolved:?}");
    assert_eq!(raised[0]["text"], "warning: articles: /articles/{id} has 1 hit, above 0");
}

#[tokio::test]
async fn a_webhook_only_accepts_certificates_trusted_by_the_system() {
    let folder = TempDir::new().expect("a folder");
    // The sites need separate Redis servers in order to send separate alerts.
    let servers = [RedisServer::start(), RedisServer::start()];
    let (trusted, other) = (Certificates::make(), Certificates::make());
    let port =
        TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("it has one").port();
    let (certificate, key) = (trusted.server(), trusted.server_key());
    let locations = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {}; ssl_certificate_key {}; access_log came said;\n\
         location / {{ return 204; }}",
        certificate.display(),
        key.display()
    );
    let server = Nginx::start_with("log_format said '$request_uri $http_webhook_signature';", &locations);
    let webhook = format!("https://localhost:{port}");
    let secret = ["--webhook-secret", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"];
    let arguments = |path: &str| {
        [&["--webhook".to_owned(), format!("{webhook}/{path}")][..], &secret.map(str::to_owned)].concat()
    };
    let start = async |path: &str, redis, certificates| {
        let arguments = arguments(path);
        let arguments: Vec<_> = arguments.iter().map(|argument| &**argument).collect();
        site(redis, &folder, &arguments, Some(certificates)).await
    };
    let sites = [start("mistaken", &servers[0], &other).await, start("trusted", &servers[1], &trusted).await];
    for site in &sites {
        assert_eq!(get(site.address, "/articles/1", &[]).await.status, 200);
    }
    let undelivered = |line: &str| line.contains("failed to deliver").then_some(line.to_owned());
    let line = sites[0].process.wait_error_line(undelivered, LIMIT).await;
    assert!(line.contains("peer certificate") && !line.contains("mistaken"), "{line}");
    let received = || fs::read_to_string(server.file("came")).unwrap_or_default();
    until("it has arrived", LIMIT, async || received().contains("/trusted v1,")).await;
    assert!(!received().contains("/mistaken"), "{}", received());
}

#[tokio::test]
async fn conflicting_flags_are_rejected() {
    let folder = TempDir::new().expect("a folder");
    let rules = folder.path().join("rules.json");
    fs::write(&rules, r#"[{ "name": "a", "when": { "abov": {} } }]"#).expect("room on the disk");
    let file = rules.to_str().expect("a plain name");
    for (arguments, wrong) in [
        (&["--webhook", "http://127.0.0.1:1/"][..], "--webhook needs --alerts"),
        (&["--alerts", "--webhook", "127.0.0.1:1"], "absolute http or https URL"),
        (&["--alerts", "--webhook", "http://127.0.0.1:1/", "--webhook-secret", "x"], "whsec_"),
        (&["--alert-rules", file], "abov"),
    ] {
        let mut command = example_command().await;
        command.args(["--listen", "127.0.0.1:0", "--store", "memory:"]).args(arguments);
        let mut process = tests::Process::start(&mut command);
        assert!(!process.wait(LIMIT).await.success(), "{arguments:?}");
        process.wait_error_line(|line| line.contains(wrong).then_some(()), LIMIT).await;
    }
}
