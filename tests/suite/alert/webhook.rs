//! Webhooks to a real server: the requests, and retries of messages that aren't accepted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use counter_alert::webhook::{Webhook, WebhookBody, WebhookError};
use counter_alert::{AlertRule, Checked, Watch};
use counter_core::{AnyStore, Counters, MemoryStore, Timestamp};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::{name, precision};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

/// The received requests, and the responses to send. The final response is repeated.
#[derive(Clone, Debug, Default)]
struct Receiver(Arc<Mutex<(Vec<Received>, Vec<Answer>)>>);

type Received = (HeaderMap, Bytes);

#[derive(Clone, Copy, Debug)]
enum Answer {
    Status(u16),
    Redirect,
    Never,
}

impl Receiver {
    async fn start(&self, address: &str) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let service = Router::new().fallback(take).with_state(self.clone());
        (address, tokio::spawn(async { axum::serve(listener, service).await.expect("it serves") }))
    }

    fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        self.0.lock().expect("no panic").1 = answers;
    }

    fn received(&self) -> Vec<(HeaderMap, Bytes)> {
        std::mem::take(&mut self.0.lock().expect("no panic").0)
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    let answer = {
        let (received, answers) = &mut *receiver.0.lock().expect("no panic");
        received.push((headers, body));
        if answers.len() > 1 { answers.pop() } else { answers.last().copied() }
    };
    match answer {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(Answer::Status(status)) => StatusCode::from_u16(status).expect("a status").into_response(),
        Some(Answer::Redirect) => (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response(),
        Some(Answer::Never) => std::future::pending().await,
    }
}

/// Creates a watch with a rule that is met in the latest hour, and returns the time at which this hour is
/// evaluated.
async fn watch(webhook: Webhook) -> (Watch, Timestamp) {
    let store = AnyStore::from(MemoryStore::new());
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let hour = precision(3600);
    let start = hour.bucket(Timestamp::now()).start.minus(3600);
    let recorder = counters.recorder();
    recorder.record_at(recorder.counter("/<b>`x`"), None, start, std::num::NonZeroU32::MIN);
    counters.flush().await.expect("memory takes all");
    let rule = AlertRule::above("größe", name("/<b>`x`"), hour, 0).resolve_after(100);
    let builder = Watch::builder(counters.stats(), store).rule(rule).deliver(webhook);
    (builder.build().expect("a good rule"), start.plus(3600).plus(Watch::LATENESS.as_secs()))
}

async fn pass(watch: &mut Watch, at: Timestamp) -> (u64, u64) {
    let Checked { delivered, undelivered, .. } = watch.check_once(at).await.expect("memory answers");
    (delivered, undelivered)
}

#[tokio::test]
async fn a_message_is_signed_according_to_standard_webhooks() {
    let receiver = Receiver::default();
    let (address, _server) = receiver.start("127.0.0.1:0").await;
    let webhook = Webhook::new(&format!("http://{address}/hooks/a")).expect("an address");
    let webhook =
        webhook.secret(SECRET).expect("a secret").header("authorization", "Bearer x").expect("a header");
    let (mut watch, at) = watch(webhook).await;
    assert_eq!(pass(&mut watch, at).await, (1, 0));
    let [(headers, body)] = <[_; 1]>::try_from(receiver.received()).expect("one");
    let verifier = standardwebhooks::Webhook::new(SECRET).expect("a secret");
    verifier.verify(&body, &headers).expect("the signature is good");
    let mut changed = body.to_vec();
    changed.push(b' ');
    verifier.verify(&changed, &headers).expect_err("it is over the body");
    assert_eq!(headers["authorization"], "Bearer x");
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    let json: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (&json["type"], &json["kind"], &json["rule"]),
        (&"alert".into(), &"raised".into(), &"größe".into())
    );
    assert_eq!(json["text"], "warning: größe: /<b>`x` has 1 hit, above 0");
}

#[tokio::test]
async fn credentials_in_the_url_are_sent_as_basic_authentication() {
    let receiver = Receiver::default();
    let (address, _server) = receiver.start("127.0.0.1:0").await;
    for (credentials, expected) in [
        ("Aladdin:open%20sesame@", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("ann@", "Basic YW5uOg=="),
        ("a%40b:%3Ac@", "Basic YUBiOjpj"),
    ] {
        let webhook = Webhook::new(&format!("http://{credentials}{address}/")).expect("an address");
        let (mut watch, at) = watch(webhook.clone()).await;
        assert_eq!(pass(&mut watch, at).await, (1, 0));
        assert_eq!(receiver.received()[0].0["authorization"], expected);
        let (mut watch, at) =
            self::watch(webhook.header("authorization", "Bearer x").expect("a header")).await;
        assert_eq!(pass(&mut watch, at).await, (1, 0));
        let headers = &receiver.received()[0].0;
        assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer x"]);
    }
}

#[tokio::test]
async fn chat_bodies_have_no_markup_or_mentions() {
    for (form, expected) in [
        (WebhookBody::Text, "warning: größe: /<b>`x` has 1 hit, above 0"),
        (WebhookBody::Slack, r#"{"text":"```\nwarning: größe: /&lt;b&gt;'x' has 1 hit, above 0\n```"}"#),
        (
            WebhookBody::Discord,
            r#"{"allowed_mentions":{"parse":[]},"content":"```\nwarning: größe: /<b>'x' has 1 hit, above 0\n```"}"#,
        ),
    ] {
        let receiver = Receiver::default();
        let (address, _server) = receiver.start("127.0.0.1:0").await;
        let webhook = Webhook::new(&format!("http://{address}/")).expect("an address").body(form);
        let (mut watch, at) = watch(webhook).await;
        assert_eq!(pass(&mut watch, at).await, (1, 0));
        let received = receiver.received();
        assert_eq!(String::from_utf8_lossy(&received[0].1), expected);
        assert!(received[0].0.get("webhook-signature").is_none() && received[0].0.contains_key("webhook-id"));
    }
}

#[tokio::test]
async fn a_message_is_retried_after_errors_timeouts_and_redirects() {
    let receiver = Receiver::default();
    let (address, _server) = receiver.start("127.0.0.1:0").await;
    let webhook = Webhook::new(&format!("http://{address}/")).expect("an address");
    let (mut watch, at) = watch(webhook.timeout(Duration::ZERO).secret(SECRET).expect("a secret")).await;
    receiver.answer([
        Answer::Status(500),
        Answer::Redirect,
        Answer::Never,
        Answer::Status(410),
        Answer::Status(202),
    ]);
    let (mut delivered, mut second) = (0, 0);
    while delivered == 0 && second < 3600 {
        delivered += pass(&mut watch, at.plus(second)).await.0;
        second += 10;
    }
    let received = receiver.received();
    let ids: Vec<_> = received.iter().map(|(headers, _)| headers["webhook-id"].clone()).collect();
    // The redirect is not followed.
    assert_eq!((ids.len(), delivered), (5, 1));
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(pass(&mut watch, at.plus(7200)).await, (0, 0));
}

#[tokio::test]
async fn a_receiver_gets_the_message_soon_after_an_outage_of_an_hour() {
    let receiver = Receiver::default();
    let (address, server) = receiver.start("127.0.0.1:0").await;
    let (mut watch, at) = watch(Webhook::new(&format!("http://{address}/")).expect("an address")).await;
    server.abort();
    server.await.expect_err("it was aborted");
    for second in (0..3600).step_by(10) {
        assert_eq!(pass(&mut watch, at.plus(second)).await.0, 0);
    }
    let (_, _server) = receiver.start(&address.to_string()).await;
    let mut delivered = 0;
    for second in (3600..=4200).step_by(10) {
        delivered += pass(&mut watch, at.plus(second)).await.0;
    }
    assert_eq!((delivered, receiver.received().len()), (1, 1));
}

#[test]
fn invalid_settings_are_rejected_and_secrets_are_not_printed() {
    for address in ["", "/hooks", "ftp://example.com/", "chat.example.com", "http://", "http://ann:x@"] {
        assert!(matches!(Webhook::new(address), Err(WebhookError::Address)), "{address}");
    }
    let webhook =
        Webhook::new("http://ann:confidential@chat.example.com/hooks/confidential").expect("an address");
    assert!(matches!(webhook.clone().secret("confidential"), Err(WebhookError::Secret)));
    assert!(matches!(webhook.clone().header("a b", "c"), Err(WebhookError::Header)));
    let debug_output = format!("{:?}", webhook.secret(SECRET).expect("a secret"));
    assert!(
        debug_output.contains("chat.example.com")
            && !debug_output.contains("confidential")
            && !debug_output.contains("whsec"),
        "{debug_output}"
    );
}
