use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::FaultProxy;
use super::frames::Frames;
use crate::redis::RedisServer;
use crate::resp::{Value, encode};
use crate::until::{until, within};

const INCREMENT: [&str; 3] = ["EVAL", "return redis.call('INCR', 'n')", "0"];
const LIMIT: Duration = crate::until::LIMIT;

/// A minimal client.
struct Client {
    replies: Frames<OwnedReadHalf>,
    requests: OwnedWriteHalf,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the proxy accepts");
        let (replies, requests) = stream.into_split();
        Self { replies: Frames::new(replies), requests }
    }

    async fn send(&mut self, requests: &[&[&str]]) {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
        // If the connection has been closed, the test will notice because it does not get a reply.
        drop(self.requests.write_all(&bytes).await);
    }

    /// Returns the next reply, or `None` if the connection is closed.
    async fn reply(&mut self) -> Option<Value> {
        within(LIMIT, self.replies.next())
            .await
            .expect("a reply or a closed connection")
            .map(|frame| frame.value)
    }
}

async fn servers() -> (RedisServer, FaultProxy) {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    (redis, proxy)
}

#[tokio::test]
async fn a_swallowed_reply_is_applied_and_closes_the_connection() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.swallow_replies(1);
    client.send(&[&["PING"], &INCREMENT, &["PING"]]).await;
    assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
    assert_eq!(client.reply().await, None);
    assert_eq!(redis.int(&["GET", "n"]), 1);
    assert_eq!(proxy.swallowed(), 1);

    let mut again = Client::connect(proxy.address()).await;
    again.send(&[&INCREMENT]).await;
    assert_eq!(again.reply().await, Some(Value::Int(2)));
    assert_eq!((proxy.swallowed(), proxy.connections()), (1, 2));
}

#[tokio::test]
async fn noscript_replies_are_not_swallowed() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.swallow_replies(1);
    let unknown = "0".repeat(40);
    client.send(&[&["EVALSHA", &unknown, "0"], &INCREMENT]).await;
    let reply = client.reply().await;
    assert!(matches!(reply, Some(Value::Error(text)) if text.starts_with("NOSCRIPT")));
    assert_eq!(client.reply().await, None);
    assert_eq!(proxy.swallowed(), 1);
}

#[tokio::test]
async fn a_dropped_request_is_not_applied_but_earlier_requests_are() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.drop_requests(1);
    client.send(&[&["SET", "n", "5"], &["GET", "n"], &INCREMENT, &["DEL", "n"]]).await;
    assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
    assert_eq!(client.reply().await, Some(Value::Bulk(b"5".to_vec())));
    assert_eq!(client.reply().await, None);
    assert_eq!(redis.int(&["GET", "n"]), 5);
    assert_eq!((proxy.dropped(), proxy.swallowed()), (1, 0));
}

#[tokio::test]
async fn resp3_clients_are_supported() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["HELLO", "3"], &["CLIENT", "TRACKING", "ON", "BCAST"]]).await;
    assert!(matches!(client.reply().await, Some(Value::Array(_))));
    assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
    // The server pushes an invalidation message, but the next reply must still be matched to the script.
    client.send(&[&["SET", "n", "1"], &["PING"]]).await;
    for _ in 0..3 {
        assert!(client.reply().await.is_some());
    }
    proxy.swallow_replies(1);
    client.send(&[&INCREMENT]).await;
    while client.reply().await.is_some() {}
    assert_eq!(proxy.swallowed(), 1);
}

const TRANSACTION: [&[&str]; 3] = [&["MULTI"], &INCREMENT, &["EXEC"]];

#[tokio::test]
async fn a_transaction_is_one_call() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.swallow_replies(1);
    client.send(&TRANSACTION).await;
    assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
    assert_eq!(client.reply().await, Some(Value::Simple("QUEUED".to_owned())));
    assert_eq!(client.reply().await, None);
    assert_eq!((redis.int(&["GET", "n"]), proxy.swallowed()), (1, 1));

    let mut client = Client::connect(proxy.address()).await;
    proxy.drop_requests(1);
    client.send(&TRANSACTION).await;
    assert!(client.reply().await.is_some());
    assert!(client.reply().await.is_some());
    assert_eq!(client.reply().await, None);
    assert_eq!((redis.int(&["GET", "n"]), proxy.dropped()), (1, 1));
}

#[tokio::test]
async fn a_call_with_a_canned_reply_is_not_applied() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    let refused = Some(Value::Error("LOADING Redis is loading".to_owned()));
    proxy.reply_with(2, "LOADING Redis is loading");
    client.send(&[&["PING"], &INCREMENT, &["PING"]]).await;
    assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
    assert_eq!(client.reply().await, refused);
    assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
    client.send(&TRANSACTION).await;
    assert!(client.reply().await.is_some());
    assert!(client.reply().await.is_some());
    assert_eq!(client.reply().await, refused);
    assert_eq!((redis.bytes(&["GET", "n"]), proxy.replied()), (None, 2));
    client.send(&[&INCREMENT]).await;
    assert_eq!(client.reply().await, Some(Value::Int(1)));
}

#[tokio::test]
async fn a_held_call_is_forwarded_on_release() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.hold_calls_after(2, 1);
    client.send(&[&INCREMENT, &INCREMENT, &INCREMENT]).await;
    for value in 1..=2 {
        assert_eq!(client.reply().await, Some(Value::Int(value)));
    }
    until("the third is held", LIMIT, async || proxy.held() == 1).await;
    assert_eq!(redis.int(&["GET", "n"]), 2);
    proxy.release();
    assert_eq!(client.reply().await, Some(Value::Int(3)));
}

#[tokio::test]
async fn an_unread_client_blocks_when_buffers_are_full() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    proxy.stop_reading(true);
    let long = "x".repeat(20_000_000);
    let echo = encode(&["ECHO", &long]);
    let mut written = 0;
    let blocked = timeout(Duration::from_millis(300), async {
        while written < echo.len() {
            written += client.requests.write(&echo[written..]).await.expect("an open connection");
        }
    });
    assert!(blocked.await.is_err());
    let mut other = Client::connect(proxy.address()).await;
    other.send(&[&["PING"]]).await;
    assert!(timeout(Duration::from_millis(50), other.replies.next()).await.is_err());
    proxy.stop_reading(false);
    assert!(other.reply().await.is_some());
    assert!(written < 8_000_000, "{written} bytes");
}

#[tokio::test]
async fn a_frozen_connection_is_silent_but_new_connections_work() {
    let (redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    proxy.freeze();
    client.send(&[&INCREMENT]).await;
    assert!(timeout(Duration::from_millis(50), client.replies.next()).await.is_err());
    let mut new = Client::connect(proxy.address()).await;
    new.send(&[&INCREMENT]).await;
    assert_eq!(new.reply().await, Some(Value::Int(1)));
    // The two clients, and the connection of this command.
    let connected = || redis.command(&["CLIENT", "LIST"]).text().expect("a text").lines().count();
    until("nobody else is connected", LIMIT, async || connected() == 3).await;
    proxy.refuse(true);
    assert_eq!(client.reply().await, None);
}

#[tokio::test]
async fn new_connections_go_to_the_new_target() {
    let (redis, proxy) = servers().await;
    let other = RedisServer::start();
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&INCREMENT]).await;
    assert!(client.reply().await.is_some());
    proxy.retarget(other.address());
    client.send(&[&INCREMENT]).await;
    assert_eq!(client.reply().await, Some(Value::Int(2)));
    let mut new = Client::connect(proxy.address()).await;
    new.send(&[&INCREMENT]).await;
    assert_eq!(new.reply().await, Some(Value::Int(1)));
    assert_eq!((redis.int(&["GET", "n"]), other.int(&["GET", "n"])), (2, 1));
}

#[tokio::test]
async fn a_long_pipeline_keeps_the_order() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    let long = "x".repeat(200_000);
    let echo = ["ECHO", &long];
    let mut requests: Vec<&[&str]> = vec![&echo];
    requests.extend([INCREMENT.as_slice(); 1_000]);
    client.send(&requests).await;
    assert_eq!(client.reply().await, Some(Value::Bulk(long.clone().into_bytes())));
    for count in 1..=1_000 {
        assert_eq!(client.reply().await, Some(Value::Int(count)));
    }
}

#[tokio::test]
async fn refuse_closes_open_and_new_connections() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    proxy.refuse(true);
    assert_eq!(client.reply().await, None);
    let mut refused = Client::connect(proxy.address()).await;
    assert_eq!(refused.reply().await, None);
    proxy.refuse(false);
    let mut welcome = Client::connect(proxy.address()).await;
    welcome.send(&[&["PING"]]).await;
    assert!(welcome.reply().await.is_some());
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn a_black_hole_accepts_requests_without_replies() {
    let (redis, proxy) = servers().await;
    proxy.black_hole(true);
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&INCREMENT]).await;
    let reply = timeout(Duration::from_millis(50), client.replies.next()).await;
    assert!(reply.is_err());
    proxy.black_hole(false);
    assert_eq!(client.reply().await, None);
    assert_eq!(redis.bytes(&["GET", "n"]), None);
}

#[tokio::test]
async fn a_pipeline_is_one_round_trip() {
    let (_redis, proxy) = servers().await;
    proxy.delay_replies(Duration::from_millis(200));
    let mut client = Client::connect(proxy.address()).await;
    for trips in 1..=3 {
        client.send(&[["PING"].as_slice(); 20]).await;
        for _ in 0..20 {
            assert!(client.reply().await.is_some());
        }
        assert_eq!(proxy.round_trips(), trips);
    }
}

#[tokio::test]
async fn a_request_after_the_first_of_many_replies_is_in_the_second_round_trip() {
    const MANY: usize = 2000;
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    let requests = async || {
        client.send(&[["PING"].as_slice(); MANY]).await;
        assert!(client.reply().await.is_some());
        client.send(&[&["PING"]]).await;
        for _ in 1..MANY {
            assert!(client.reply().await.is_some());
        }
        client.send(&[&["PING"]]).await;
        client.reply().await.is_some() && client.reply().await.is_some()
    };
    assert_eq!(proxy.fewest_round_trips(2, requests).await, 2);
}

#[tokio::test]
async fn a_delayed_reply_arrives_after_the_delay() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    proxy.delay_replies(Duration::from_millis(50));
    let start = Instant::now();
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn a_killed_server_closes_the_connection() {
    let (mut redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    redis.kill();
    assert_eq!(client.reply().await, None);
    redis.restart();
    let mut again = Client::connect(proxy.address()).await;
    again.send(&[&["PING"]]).await;
    assert!(again.reply().await.is_some());
}

#[tokio::test]
async fn dropping_the_proxy_closes_connections() {
    let (_redis, proxy) = servers().await;
    let mut client = Client::connect(proxy.address()).await;
    client.send(&[&["PING"]]).await;
    assert!(client.reply().await.is_some());
    drop(proxy);
    assert_eq!(client.reply().await, None);
}
