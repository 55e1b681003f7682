//! Request bodies that don't end: they should not occupy the router or connections for long.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use counter_admin::{Access, Options};
use counter_alert::note::Notes;
use counter_core::{Counters, MemoryStore};
use counter_layer::AccessCounterLayer;
use counter_log::LogCounter;
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use tests::http::{get, post};
use tests::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

use super::site::LIMIT;

const TOKEN: &str = "a-token-for-tests";

/// Paths that read a body, with the timeout in seconds.
const PATHS: [(&str, u64); 4] =
    [("/login", 10), ("/notes", 30), ("/notes/remove", 30), ("/api/hits?producer=a&number=1", 30)];

fn router() -> Router {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder());
    let options = Options::new().hits(counters.sources(), LogCounter::new(&layer)).notes(Notes::new(store));
    let access = Access::bearer(TOKEN).expect("a token").may_record().may_note();
    counter_admin::router_with(counters.stats(), access, options)
}

async fn send(router: &Router, path: &str, body: Body) -> Response<Body> {
    let request = Request::post(path).header("authorization", format!("Bearer {TOKEN}"));
    router.clone().oneshot(request.body(body).expect("a request")).await.expect("an answer")
}

/// Creates a body that starts but never ends.
fn endless() -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"token="))]);
    Body::from_stream(first.chain(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn an_endless_body_times_out() {
    let router = router();
    for (path, seconds) in PATHS {
        let start_time = Instant::now();
        let response = send(&router, path, endless()).await;
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
        assert_eq!(start_time.elapsed(), Duration::from_secs(seconds), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_incomplete_bodies_is_limited() {
    let router = router();
    let (path, _) = PATHS[1];
    let waiting: Vec<_> = (0..64)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, path, endless()).await.status() })
        })
        .collect();
    // Lets the runtime poll the other tasks.
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    let response = send(&router, path, endless()).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    for waiting in waiting {
        assert_eq!(waiting.await.expect("no panic"), StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(send(&router, path, Body::from("text=a")).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_without_a_body_are_disconnected_and_do_not_lock_out_others() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let app = router().into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async { axum::serve(listener, app).await.expect("it serves") });
    let head = "POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 16000\r\n\r\n";
    let mut connections = JoinSet::new();
    for _ in 0..250 {
        let mut connection = TcpStream::connect(address).await.expect("it listens");
        connection.write_all(head.as_bytes()).await.expect("it reads");
        connections.spawn(async move {
            let mut response = String::new();
            connection.read_to_string(&mut response).await.map(|_| response)
        });
    }
    // All except the newest are answered and closed immediately instead of at the timeout.
    for _ in 64..250 {
        let closed = within(LIMIT, connections.join_next()).await.expect("it is closed");
        let response = closed.expect("there are more").expect("no panic").expect("an answer");
        assert!(response.starts_with("HTTP/1.1 503") || response.starts_with("HTTP/1.1 408"), "{response}");
    }
    let form = format!("token={TOKEN}&to=");
    assert_eq!(post(address, "/login", &[], &form).await.status, 303);
    let credentials = format!("Bearer {TOKEN}");
    assert_eq!(get(address, "/api/ledger", &[("authorization", &credentials)]).await.status, 200);
    server.abort();
}
