//! Long-lived connections: server-sent events and a WebSocket. These are counted once, when the response head
//! is sent.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::response::sse::{Event, Sse};
use axum::routing::{any, get};
use counter_layer::Identity;
use futures_util::stream::{self, Stream};
use strangers::{BoxError, Counting, interrupted, listen};
use tokio::sync::watch;

type Ending = State<watch::Receiver<bool>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let (end, ending) = watch::channel(false);
    let app = Router::new()
        .route("/", get(async || "home"))
        .route("/events/{topic}", get(events))
        .route("/socket", any(socket))
        .with_state(ending)
        .layer(counting.layer(Identity::peer())?);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let stopping = async move {
        interrupted().await;
        end.send_replace(true);
    };
    axum::serve(listen().await?, service).with_graceful_shutdown(stopping).await?;
    counting.finish().await
}

/// Sends an event immediately, and a final event when the server shuts down.
async fn events(State(ending): Ending) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(stream::unfold(Some((ending, "begin")), async |state| {
        let (mut ending, event) = state?;
        if event == "end" {
            drop(ending.wait_for(|end| *end).await);
            return Some((Ok(Event::default().data(event)), None));
        }
        Some((Ok(Event::default().data(event)), Some((ending, "end"))))
    }))
}

async fn socket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            break;
        }
    }
}
