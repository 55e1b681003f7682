//! The server for `tests/tools/confirm`: the same page on four addresses, with the same Redis server.
//!
//! `book` updates the counter like *Redis in Action*, and waits for it: `HINCRBY` and `ZADD` for each
//! precision, in a single pipeline, via a client that is shared across requests. It counts the same as the
//! layer: `hits` and the route.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Router, serve};
use counter_core::stores::Namespace;
use counter_core::unstable::fred::clients::Client;
use counter_core::unstable::fred::error::Error as FredError;
use counter_core::unstable::fred::interfaces::ClientLike;
use counter_core::unstable::fred::types::config::Config;
use counter_core::unstable::fred::types::{ClusterHash, CustomCommand, Value};
use counter_core::{Counters, RedisStore, Timestamp};
use counter_layer::{AccessCounterLayer, Delivery};
use http::StatusCode;
use tokio::net::TcpListener;

const PRECISIONS: [u64; 7] = [1, 5, 60, 300, 3600, 18_000, 86_400];

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: confirm redis://127.0.0.1:6379")?;
    let client = Client::new(Config::from_url(&url)?, None, None, None);
    client.init().await?;
    let timeout = Duration::from_secs(5);
    let sites = [
        ("book", Router::new().route("/", get(book)).with_state(client)),
        ("confirmed", counted(&url, "confirmed:", Delivery::BeforeResponse { timeout }).await?),
        ("background", counted(&url, "background:", Delivery::Background).await?),
        ("bare", site()),
    ];
    for (kind, site) in sites {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{kind} http://{}/", listener.local_addr()?);
        let site = site.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { serve(listener, site).await });
    }
    // Run until killed.
    std::future::pending().await
}

fn site() -> Router {
    Router::new().route("/", get(async || "home"))
}

async fn counted(url: &str, namespace: &str, delivery: Delivery) -> Result<Router, Box<dyn Error>> {
    let namespace: Namespace = namespace.parse()?;
    let mut counters = Counters::builder(RedisStore::connect(url, namespace).await?).build()?;
    let layer = AccessCounterLayer::new(counters.recorder()).delivery(delivery);
    tokio::spawn(async move { counters.run(std::future::pending()).await });
    Ok(site().layer(layer))
}

async fn book(State(client): State<Client>) -> Result<&'static str, StatusCode> {
    update_counter(&client).await.map(|_| "home").map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

async fn update_counter(client: &Client) -> Result<Vec<Value>, FredError> {
    let now = Timestamp::now().as_unix();
    let command = |name| CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    let pipeline = client.pipeline();
    for counter in ["hits", "/"] {
        for precision in PRECISIONS {
            let start = (now - now % precision).to_string();
            let hash = format!("{precision}:{counter}");
            let known = ["book:known:".to_owned(), "0".to_owned(), hash.clone()];
            let () = pipeline.custom(command("ZADD"), known.to_vec()).await?;
            let count = [format!("book:count:{hash}"), start, "1".to_owned()];
            let () = pipeline.custom(command("HINCRBY"), count.to_vec()).await?;
        }
    }
    pipeline.all().await
}
