//! Law 9, key by key: requests to a real server, compared with the logs of this server and of the nginx in
//! front.

mod test_request;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use counter_core::{Counters, Precisions, RedisStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Outcome, Rule, Rules};
use counter_log::{Format, Import, Lines, LogCounter};
use http::{HeaderMap, Method, StatusCode};
use tests::{LIMIT, Nginx, RedisServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinSet, block_in_place};
use tower::ServiceExt;

use super::log::{escape, forwarded};
use crate::random::Random;
use crate::support::{Content, assert_same_contents, clf, contents, copy_salts, store_in};
use test_request::{Fate, TestRequest};

const REQUESTS: u64 = 10_000;

/// Number of concurrent connections.
const CLIENTS: u8 = 6;

/// Headers in the log.
const LOGGED: [&str; 5] = ["referer", "user-agent", "x-forwarded-for", "sec-purpose", "accept-language"];

const PATTERN: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i" "%{Sec-Purpose}i" "%{Accept-Language}i""#;

/// The same pattern for nginx.
const LOG_FORMAT: &str = r#"log_format seen '$remote_addr - - [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" "$http_x_forwarded_for" "$http_sec_purpose" "$http_accept_language"';"#;

/// Request header that selects the response of the service.
const RESPONSE_HEADER: &str = "x-answer";

/// Returns layers with various settings for a service with a local proxy. Routes are not used, because they
/// are not part of a log.
fn layers(counters: &Counters) -> Vec<AccessCounterLayer> {
    let layer = |identity: Identity| {
        AccessCounterLayer::new(counters.recorder())
            .identity(identity)
            .expect("addresses identify visitors within a day")
    };
    let rules = Rules::builder()
        .rule(Rule::counter("articles").pattern("/articles/{id}").pattern("*.html"))
        .rule(Rule::counter("signups").pattern("/signup").method(Method::POST))
        .rule(
            Rule::counter("api")
                .pattern("/api/*")
                .weight(NonZeroU32::new(3).expect("not 0"))
                .without_visitors(),
        )
        .exclude("/static/*")
        .exclude_prefetch();
    let rules_of = |rules: counter_layer::RulesBuilder| rules.build().expect("rules");
    let local = "127.0.0.0/8".parse().expect("a network");
    let (feeds, reserved) = (counters.recorder().counter("feeds"), counters.recorder().counter("status:2xx"));
    vec![
        layer(forwarded().trusted_hops(1).into()).rules(rules_of(rules.clone())).facets([
            Facet::Status,
            Facet::Method,
            Facet::Agent,
        ]),
        layer(forwarded().trusted_networks([local]).into())
            .rules(rules_of(rules.default_counter("pages")))
            .facets([Facet::Status])
            .count_if(|outcome| outcome != Outcome::Responded(StatusCode::NOT_FOUND)),
        layer(forwarded().trusted_hops(2).into())
            .bots_are_visitors()
            .count_on_request()
            .facets([Facet::Status, Facet::Agent])
            .fallback(move |head| match head.uri.path() {
                path if path.starts_with("/feed") => Some(feeds),
                path if path.starts_with("/reserved") => Some(reserved),
                _ => None,
            }),
        layer(Identity::from_fn(|head| head.headers.get("accept-language").cloned()).into())
            .facets([Facet::Status, Facet::Method]),
    ]
}

/// A service that writes a log, with an exchangeable layer.
#[derive(Clone)]
struct Site {
    inner: Arc<Mutex<Router>>,
    log: Arc<Mutex<Vec<u8>>>,
    /// Receives a message if a request arrives that will not be answered.
    unanswered: UnboundedSender<()>,
}

/// Messages about unanswered requests. A client must hold the lock while it waits for such a request.
type Unanswered = Arc<tokio::sync::Mutex<UnboundedReceiver<()>>>;

impl Site {
    async fn start() -> (Self, SocketAddr, Unanswered) {
        let (unanswered, receiver) = unbounded_channel();
        let site = Self { inner: Arc::default(), log: Arc::default(), unanswered };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let serve = {
            let site = site.clone();
            move |request: Request| site.clone().serve(request)
        };
        let service = Router::new().fallback(serve).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        (site, address, Arc::new(receiver.into()))
    }

    /// Replaces the layer.
    fn use_layer(&self, layer: AccessCounterLayer) {
        let unanswered = self.unanswered.clone();
        let answer = move |request: Request| answer(request, unanswered.clone());
        *self.inner.lock().expect("no panic") = Router::new().fallback(answer).layer(layer);
    }

    async fn serve(self, request: Request) -> Response {
        let mut entry = Entry::of(&request, self.log);
        let inner = self.inner.lock().expect("no panic").clone();
        let Ok(response) = inner.oneshot(request).await;
        entry.status = response.status().as_u16();
        response
    }

    fn lines(&self) -> usize {
        count_lines(&self.log.lock().expect("no panic"))
    }

    fn take_log(&self) -> Vec<u8> {
        std::mem::take(&mut self.log.lock().expect("no panic"))
    }
}

async fn answer(request: Request, unanswered: UnboundedSender<()>) -> Response {
    let status = request.headers()[RESPONSE_HEADER].to_str().expect("text").parse::<u16>();
    let Ok(status) = status else {
        unanswered.send(()).expect("the test waits");
        return std::future::pending().await;
    };
    let mut response = Response::builder().status(status);
    if status == 101 {
        response = response.header("connection", "upgrade").header("upgrade", "echo");
    }
    let body = if [101, 204, 304].contains(&status) { Body::empty() } else { Body::from("ok") };
    response.body(body).expect("a status")
}

/// A log line, which is written when the request is answered or dropped.
struct Entry {
    peer: IpAddr,
    request: String,
    headers: HeaderMap,
    status: u16,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Entry {
    fn of(request: &Request, log: Arc<Mutex<Vec<u8>>>) -> Self {
        let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>().expect("a connection");
        let headers = request.headers().clone();
        let request = format!("{} {} HTTP/1.1", request.method(), request.uri());
        Self { peer: peer.ip(), request, headers, status: 499, log }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Self { peer, request, headers, status, log } = self;
        let mut line = format!("{peer} - - [{}] \"", clf(Timestamp::now())).into_bytes();
        escape(request.as_bytes(), &mut line);
        line.extend(format!("\" {status} 2").into_bytes());
        for name in LOGGED {
            line.extend_from_slice(b" \"");
            let values: Vec<_> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
            if values.is_empty() {
                line.push(b'-');
            }
            escape(&values.join(&b", "[..]), &mut line);
            line.push(b'"');
        }
        line.push(b'\n');
        log.lock().expect("no panic").extend(line);
    }
}

fn count_lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// A client, identified by the last byte of the IP address.
struct Client {
    number: u8,
    proxy: SocketAddr,
    connection: Option<TcpStream>,
    unanswered: Unanswered,
}

impl Client {
    async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::new(127, 0, 0, self.number), 0).into()).expect("an address of this machine");
        let connection = socket.connect(self.proxy).await.expect("nginx listens");
        connection.set_nodelay(true).expect("a socket");
        connection
    }

    async fn send(&mut self, test_request: &TestRequest) {
        if matches!(test_request.fate, Fate::Aborted | Fate::Upgraded) {
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await,
        };
        if test_request.fate == Fate::Aborted {
            let mut unanswered = self.unanswered.lock().await;
            connection.write_all(&test_request.head).await.expect("nginx reads");
            return unanswered.recv().await.expect("the site is there");
        }
        connection.write_all(&test_request.head).await.expect("nginx reads");
        let head = read_answer(&mut connection, test_request).await;
        if test_request.fate != Fate::Upgraded && !head.contains("connection: close") {
            self.connection = Some(connection);
        }
    }
}

/// Reads a response to the end.
async fn read_answer(connection: &mut TcpStream, test_request: &TestRequest) -> String {
    let mut answer = Vec::new();
    loop {
        let read = connection.read_buf(&mut answer).await.expect("nginx answers");
        assert!(read > 0, "the answer has no end: {answer:?} to {test_request:?}");
        let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
        let has_body = match test_request.fate {
            Fate::Responded { has_body } => has_body,
            Fate::Rejected => !test_request.head.starts_with(b"HEAD"),
            Fate::Upgraded | Fate::Aborted => false,
        };
        let length = length.filter(|_| has_body).map_or(0, |length| length.parse().expect("a length"));
        if answer.len() >= end + 4 + length {
            return head;
        }
    }
}

/// A site with nginx in front, and both logs.
struct Stack {
    redis: RedisServer,
    nginx: Nginx,
    site: Site,
    clients: Vec<Client>,
    served: RedisStore,
    /// The part of the nginx log that has already been read.
    read: usize,
}

/// The two logs of the requests served with a particular layer.
#[derive(Clone, Debug, Default)]
struct Logs {
    of_the_site: Vec<u8>,
    of_nginx: Vec<u8>,
}

/// Creates counters that retain seconds for an hour: on a slow machine, they must not expire before the import.
fn counters(store: RedisStore) -> Counters {
    let samples = NonZeroU32::new(3600).expect("not 0");
    let builder = Counters::builder(store).precisions(Precisions::default().samples(samples));
    builder.build().expect("good settings")
}

impl Stack {
    async fn start() -> Self {
        let (site, address, unanswered) = Site::start().await;
        let directives = format!(
            "{LOG_FORMAT}\nupstream site {{ server {address}; keepalive 16; }}\n\
             map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}"
        );
        let locations = "access_log access.log seen;
            location / {
                proxy_pass http://site; proxy_http_version 1.1; proxy_next_upstream off;
                proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
            }";
        let (redis, nginx) =
            block_in_place(|| (RedisServer::start(), Nginx::start_with(&directives, locations)));
        let client = |number| Client {
            number,
            proxy: nginx.address(),
            connection: None,
            unanswered: unanswered.clone(),
        };
        let clients = (2..2 + CLIENTS).map(client).collect();
        let served = store_in(&redis.url(), "served:".parse().expect("a namespace")).await;
        Self { redis, nginx, site, clients, served, read: 0 }
    }

    /// Creates counters, as in a new process of the site.
    fn process(&self) -> Counters {
        counters(self.served.clone())
    }

    /// Serves requests with a layer, and returns the log lines. If a new second starts in the meantime, this
    /// returns `None` and stores nothing, because a request and the log line could then have different times.
    async fn serve(&mut self, requests: &[TestRequest], kind: usize) -> Option<Logs> {
        let mut counters = self.process();
        let layer = layers(&counters).swap_remove(kind);
        // This flush agrees on the daily salt.
        counters.flush().await.expect("the store is there");
        self.site.use_layer(layer);
        let started = Timestamp::now();
        let mut sending = JoinSet::new();
        for (number, mut client) in self.clients.drain(..).enumerate() {
            let part: Vec<_> = requests.iter().skip(number).step_by(CLIENTS.into()).cloned().collect();
            sending.spawn(async move {
                for test_request in part {
                    client.send(&test_request).await;
                }
                client
            });
        }
        self.clients = sending.join_all().await;
        let expected_lines =
            requests.iter().filter(|test_request| test_request.fate != Fate::Rejected).count();
        let log = self.nginx.file("access.log");
        let of_nginx = || fs::read(&log).expect("nginx has its log").split_off(self.read);
        let are_written =
            async || self.site.lines() >= expected_lines && count_lines(&of_nginx()) >= requests.len();
        until("all requests are logged", LIMIT, are_written).await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right");
        let logs = Logs { of_the_site: self.site.take_log(), of_nginx: of_nginx() };
        self.read += logs.of_nginx.len();
        // `SystemTime` is never behind the coarse clock used by the log, so the whole chunk is in the same
        // second.
        if Timestamp::from_unix(now.as_secs()) != started {
            return None;
        }
        counters.flush().await.expect("the store is there");
        Some(logs)
    }

    /// Serves all requests in chunks that fit into a second, and returns the logs by layer.
    async fn serve_all(&mut self, requests: &[TestRequest]) -> Vec<Logs> {
        let mut logs = vec![Logs::default(); layers(&self.process()).len()];
        let (mut size, mut at, mut parts) = (512, 0, 0);
        while at < requests.len() {
            let part = &requests[at..requests.len().min(at + size)];
            let kind = parts % logs.len();
            let Some(more) = self.serve(part, kind).await else {
                size = size / 2 + 1;
                continue;
            };
            // Adapts the chunk size to the speed of the machine.
            size += size / 4 + 1;
            logs[kind].of_the_site.extend(more.of_the_site);
            logs[kind].of_nginx.extend(more.of_nginx);
            (at, parts) = (at + part.len(), parts + 1);
        }
        logs
    }

    /// Imports the log of each layer into a namespace with the salts of the served namespace, and returns the
    /// number of malformed lines.
    async fn import<'a>(
        &self,
        namespace: &str,
        logs: impl IntoIterator<Item = &'a Vec<u8>>,
        counter_of: impl Fn(&AccessCounterLayer) -> LogCounter,
    ) -> u64 {
        copy_salts(&self.redis, "served:", namespace);
        let store = store_in(&self.redis.url(), namespace.parse().expect("a namespace")).await;
        let counters = counters(store);
        let mut malformed = 0;
        for (kind, (log, layer)) in logs.into_iter().zip(layers(&counters)).enumerate() {
            let format = Format::pattern(PATTERN).expect("a pattern");
            let mut import = Import::new(counters.sources(), format, counter_of(&layer));
            let open = |position: u64| {
                Ok(Some(Lines::new(&log[usize::try_from(position).expect("short")..], position)))
            };
            let name = format!("log {kind}").parse().expect("a name");
            import.count(name, open).await.expect("the store is there");
            malformed += import.report().malformed();
        }
        malformed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_an_import_of_the_logs_produce_equal_keys_and_values() {
    let mut random = Random::storm("of requests");
    let requests: Vec<_> = (0..REQUESTS).map(|_| TestRequest::random(&mut random)).collect();
    let rejected = requests.iter().filter(|test_request| test_request.fate == Fate::Rejected).count() as u64;
    let mut stack = Stack::start().await;
    let logs = stack.serve_all(&requests).await;

    let of_the_site = logs.iter().map(|logs| &logs.of_the_site);
    assert_eq!(stack.import("site:", of_the_site, LogCounter::new).await, 0);
    let of_nginx = logs.iter().map(|logs| &logs.of_nginx);
    let behind = |layer: &AccessCounterLayer| {
        LogCounter::new(layer).behind(Forwarded::X_FORWARDED_FOR, Ipv4Addr::LOCALHOST.into())
    };
    assert_eq!(stack.import("nginx:", of_nginx, behind).await, rejected);

    let served = contents(&stack.redis, "served:");
    for log in ["site:", "nginx:"] {
        assert_same_contents(&served, &contents(&stack.redis, log));
    }
    // To make sure that the comparison is not trivial.
    let Some((_, Content::Pairs(totals))) = served.get("total") else {
        panic!("no totals: {:?}", served.keys())
    };
    for counter in
        ["hits", "articles", "signups", "api", "pages", "feeds", "(other)", "agent:bot", "method:other"]
    {
        assert!(totals.contains_key(counter), "{counter}: {totals:?}");
    }
    for class in ["1xx", "2xx", "3xx", "4xx", "5xx", "aborted"] {
        assert!(totals.contains_key(&format!("status:{class}")), "{class}: {totals:?}");
    }
    let is_sketch =
        |(_, content): &&(i64, Content)| matches!(content, Content::Sketch(all) if all.len() > 20);
    assert!(served.values().filter(is_sketch).count() > 3, "{:?}", served.keys());
}
