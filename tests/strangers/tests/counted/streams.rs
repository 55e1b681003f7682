//! Event streams and WebSockets are counted when they are opened.

use futures_util::{SinkExt, StreamExt};
use http::Method;
use tests::{LIMIT, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{TestApp, Visit, lifetime, random_visits};

#[tokio::test]
async fn streams_and_sockets_count_once_regardless_of_duration() {
    let mut site = TestApp::start(env!("CARGO_BIN_EXE_streams"), &[]).await;
    let visits = random_visits(
        200,
        8,
        &[
            &|_| Visit::new("GET", "/", "/"),
            // A request that isn't an upgrade, and a method that isn't allowed.
            &|_| Visit::new("GET", "/socket", "/socket"),
            &|_| Visit::new("POST", "/events/news", "/events/{topic}"),
        ],
    );
    site.request_all(visits).await;

    let mut events = Vec::new();
    for topic in 0..20 {
        let mut client = TcpStream::connect(site.address).await.expect("a server");
        let request = format!("GET /events/{topic} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("it is sent");
        let mut received = Vec::new();
        while !String::from_utf8_lossy(&received).contains("data: begin") {
            received.push(client.read_u8().await.expect("an event"));
        }
        site.tally.add(&Method::GET, Some("/events/{topic}"), "2xx");
        events.push(client);
    }
    // Half of the clients disconnect. These are not counted as aborts, because the response has already
    // started.
    events.truncate(10);

    let mut sockets = Vec::new();
    for _ in 0..20 {
        let url = format!("ws://{}/socket", site.address);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.expect("a socket");
        site.tally.add(&Method::GET, Some("/socket"), "1xx");
        for number in 0..10 {
            let message = Message::text(format!("hello {number}"));
            socket.send(message.clone()).await.expect("it is open");
            assert_eq!(socket.next().await.expect("it is open").expect("an echo"), message);
        }
        sockets.push(socket);
    }
    sockets.truncate(10);

    // Hits are stored while the connections are still open.
    let (redis, expected) = (site.redis.url(), site.tally.of("hits"));
    until("all are stored", LIMIT, async || lifetime(&redis, "hits").await == expected).await;
    for mut socket in sockets {
        socket.close(None).await.expect("it is open");
    }
    site.check().await;
    for mut client in events {
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.expect("a whole stream");
        assert!(rest.contains("data: end"), "{rest}");
    }
}
