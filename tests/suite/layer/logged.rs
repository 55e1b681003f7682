//! Law 9, key by key: requests that a real server answers, and the logs that it and the nginx before it write of
//! them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use counter_core::{Counters, RedisStore, Timestamp};
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
use crate::support::{BOT, BROWSER, Content, assert_same, clf, contents, copy_salts, store_in};

const REQUESTS: u64 = 10_000;

/// The connections over which requests come at once.
const CLIENTS: u8 = 6;

/// The headers that are logged.
const LOGGED: [&str; 5] = ["referer", "user-agent", "x-forwarded-for", "sec-purpose", "accept-language"];

const PATTERN: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i" "%{Sec-Purpose}i" "%{Accept-Language}i""#;

/// The same for nginx.
const LOG_FORMAT: &str = r#"log_format seen '$remote_addr - - [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" "$http_x_forwarded_for" "$http_sec_purpose" "$http_accept_language"';"#;

/// The header by which a client tells the service what to answer.
const ANSWER: &str = "x-answer";

/// A request, and what becomes of it.
#[derive(Clone, Debug)]
struct Asked {
    head: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered {
        has_body: bool,
    },
    /// The connection is another protocol's from then on.
    Upgraded,
    /// The client goes away before the answer.
    Aborted,
    /// No server of HTTP in Rust takes it for a request.
    Refused,
}

impl Asked {
    fn random(random: &mut Random) -> Self {
        let method = random.one_of(&[
            "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH",
            "PURGE", "PROPFIND",
        ]);
        let target = target(random);
        let mut fate = Fate::Answered { has_body: method != "HEAD" };
        let mut answer = random.one_of(&[
            "200", "200", "200", "201", "204", "206", "301", "302", "304", "400", "401", "404", "405", "410",
            "416", "418", "429", "500", "502", "503",
        ]);
        match random.among(0..40) {
            0 => (fate, answer) = (Fate::Aborted, "none"),
            1 if method == "GET" => (fate, answer) = (Fate::Upgraded, "101"),
            _ if ["204", "304"].contains(&answer) => fate = Fate::Answered { has_body: false },
            _ => {}
        }
        if target.contains('<') || target.contains("?q=\"") {
            fate = Fate::Refused;
        }
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nHost: www.example.org\r\n{ANSWER}: {answer}\r\n");
        if fate == Fate::Upgraded {
            head += "Connection: upgrade\r\nUpgrade: echo\r\n";
        }
        if method == "POST" {
            head += "Content-Length: 0\r\n";
        }
        if answer == "206" {
            head += "Range: bytes=0-1\r\n";
        }
        headers(random, &mut head);
        Self { head: (head + "\r\n").into_bytes(), fate }
    }
}

fn target(random: &mut Random) -> String {
    let number = random.among(0..40);
    match random.among(0..27) {
        0..5 => format!("/articles/{number}"),
        5 => format!("/articles/{number}/?page={number}"),
        6 => format!("/page-{number}.html"),
        7 => format!("/static/{number}.css"),
        8 => "/signup".to_owned(),
        9 => format!("/api/v1/{number}"),
        10 => "/".to_owned(),
        11 => format!("//articles//{number}"),
        12 => format!("/other/../articles/{number}"),
        13 => format!("/./articles/{number}/."),
        14 => format!("/%61rticles/%3{}", number % 10),
        15 => format!("/articles/{number};version=1"),
        16 => format!("/caf%C3%A9/{number}"),
        17 => format!("/café/{number}"),
        18 => format!("/articles/a%2Fb%3{}", number % 10),
        19 => format!("/search?q=\"{number}\"&b=\\{number}"),
        20 => format!("/{{\"a\":{number}}}"),
        21 => format!("/feed?{number}"),
        22 => format!("/reserved/{number}"),
        23 => format!("/ARTICLES/{number}?a&b=%zz"),
        24 => format!("/search?and=\\{number}^|"),
        25 => format!("http://www.example.org/articles/{number}?absolute"),
        _ => format!("/articles/<{number}>"),
    }
}

fn headers(random: &mut Random, head: &mut String) {
    let agents = [
        BROWSER,
        BROWSER,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Safari/604.1",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/138.0.0.0 Safari/537.36",
        BOT,
        "curl/8.14.1",
        "say \"hello\" \\ and \t go – é",
        "\\x41\\",
    ];
    let number = random.among(1..200);
    let mut add = |name: &str, value: &str| *head += &format!("{name}: {value}\r\n");
    match random.among(0..12) {
        0 => {}
        1 => add("User-Agent", ""),
        _ => add("User-Agent", random.one_of(&agents)),
    }
    match random.among(0..12) {
        0..3 => {}
        3 => add("X-Forwarded-For", "unknown"),
        4 => add("X-Forwarded-For", &format!("[2001:db8:0:{number:x}::7]:4711")),
        5 => add("X-Forwarded-For", &format!("2001:db8:0:{number:x}::7, 198.51.100.1")),
        6 => add("X-Forwarded-For", &format!("198.51.100.1,203.0.113.{number}:80")),
        7 => {
            add("X-Forwarded-For", "198.51.100.9");
            add("X-Forwarded-For", &format!("203.0.113.{number}"));
        }
        _ => add("X-Forwarded-For", &format!("203.0.113.{number}")),
    }
    match random.among(0..6) {
        0 => add("Referer", &format!("https://{number}.example/\"a\\\"?q=%20")),
        1 => add("Referer", "https://www.example.org/"),
        _ => {}
    }
    if random.among(0..15) == 0 {
        add("Sec-Purpose", random.one_of(&["prefetch", "prefetch;prerender", "other"]));
    }
    match random.among(0..3) {
        0 => add("Accept-Language", random.one_of(&["de-CH, de;q=0.9", "fr", "*"])),
        1 => add("Accept-Language", "en"),
        _ => {}
    }
}

/// Layers of several kinds, behind a proxy on this machine. A log has no router, and so none of them has a route.
fn layers(counters: &Counters) -> Vec<AccessCounterLayer> {
    let layer = |identity: Identity| {
        AccessCounterLayer::new(counters.recorder())
            .identity(identity)
            .expect("days are told apart by addresses")
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
            .count_if(|outcome| outcome != Outcome::Answered(StatusCode::NOT_FOUND)),
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

/// The service, whose layers change, and which writes a log.
#[derive(Clone)]
struct Site {
    inner: Arc<Mutex<Router>>,
    log: Arc<Mutex<Vec<u8>>>,
    /// Told of each request that arrived and will not be answered.
    unanswered: UnboundedSender<()>,
}

/// What is told of the request that one client waits for at a time.
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

    /// Answers requests under this layer from now on.
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
    let status = request.headers()[ANSWER].to_str().expect("text").parse::<u16>();
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

/// A line that is written when the request has an answer, or will never have one.
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

/// A client, by the last part of its address.
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

    async fn send(&mut self, asked: &Asked) {
        if matches!(asked.fate, Fate::Aborted | Fate::Upgraded) {
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await,
        };
        if asked.fate == Fate::Aborted {
            let mut unanswered = self.unanswered.lock().await;
            connection.write_all(&asked.head).await.expect("nginx reads");
            return unanswered.recv().await.expect("the site is there");
        }
        connection.write_all(&asked.head).await.expect("nginx reads");
        let head = read_answer(&mut connection, asked).await;
        if asked.fate != Fate::Upgraded && !head.contains("connection: close") {
            self.connection = Some(connection);
        }
    }
}

/// Reads an answer to its end.
async fn read_answer(connection: &mut TcpStream, asked: &Asked) -> String {
    let mut answer = Vec::new();
    loop {
        let read = connection.read_buf(&mut answer).await.expect("nginx answers");
        assert!(read > 0, "the answer has no end: {answer:?} to {asked:?}");
        let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
        let has_body = match asked.fate {
            Fate::Answered { has_body } => has_body,
            Fate::Refused => !asked.head.starts_with(b"HEAD"),
            Fate::Upgraded | Fate::Aborted => false,
        };
        let length = length.filter(|_| has_body).map_or(0, |length| length.parse().expect("a length"));
        if answer.len() >= end + 4 + length {
            return head;
        }
    }
}

/// A site with nginx before it, and the logs of both.
struct Stack {
    redis: RedisServer,
    nginx: Nginx,
    site: Site,
    clients: Vec<Client>,
    served: RedisStore,
    /// The length of the log of nginx up to now.
    read: usize,
}

/// What the layers of one kind saw, as the logs have it.
#[derive(Clone, Debug, Default)]
struct Logs {
    of_the_site: Vec<u8>,
    of_nginx: Vec<u8>,
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

    /// The counters of a new process of the site.
    fn process(&self) -> Counters {
        Counters::builder(self.served.clone()).build().expect("the defaults are fine")
    }

    /// Lets these requests be served under a layer, and returns what was logged, unless a second ended meanwhile: a
    /// request and its line may be of two then, and nothing is stored.
    async fn serve(&mut self, requests: &[Asked], kind: usize) -> Option<Logs> {
        let mut counters = self.process();
        let layer = layers(&counters).swap_remove(kind);
        // The salt of the day is agreed with the store.
        counters.flush().await.expect("the store is there");
        self.site.use_layer(layer);
        let begun = Timestamp::now();
        let mut sending = JoinSet::new();
        for (number, mut client) in self.clients.drain(..).enumerate() {
            let part: Vec<_> = requests.iter().skip(number).step_by(CLIENTS.into()).cloned().collect();
            sending.spawn(async move {
                for asked in part {
                    client.send(&asked).await;
                }
                client
            });
        }
        self.clients = sending.join_all().await;
        let reach_the_site = requests.iter().filter(|asked| asked.fate != Fate::Refused).count();
        let log = self.nginx.file("access.log");
        let of_nginx = || fs::read(&log).expect("nginx has its log").split_off(self.read);
        let are_written =
            async || self.site.lines() >= reach_the_site && count_lines(&of_nginx()) >= requests.len();
        until("all requests are logged", LIMIT, are_written).await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right");
        let logs = Logs { of_the_site: self.site.take_log(), of_nginx: of_nginx() };
        self.read += logs.of_nginx.len();
        // The clock of the timer tick is never ahead of the other.
        if Timestamp::from_unix(now.as_secs()) != begun {
            return None;
        }
        counters.flush().await.expect("the store is there");
        Some(logs)
    }

    /// Lets all requests be served, in parts that fit into a second, and returns the logs of each kind of layer.
    async fn serve_all(&mut self, requests: &[Asked]) -> Vec<Logs> {
        let mut logs = vec![Logs::default(); layers(&self.process()).len()];
        let (mut size, mut at, mut parts) = (512, 0, 0);
        while at < requests.len() {
            let part = &requests[at..requests.len().min(at + size)];
            let kind = parts % logs.len();
            let Some(more) = self.serve(part, kind).await else {
                size = size / 2 + 1;
                continue;
            };
            // As many as are most often ready before a second ends, on this machine.
            size += size / 4 + 1;
            logs[kind].of_the_site.extend(more.of_the_site);
            logs[kind].of_nginx.extend(more.of_nginx);
            (at, parts) = (at + part.len(), parts + 1);
        }
        logs
    }

    /// Counts a log of each kind under a namespace that has the salts of the served one; returns the number of
    /// malformed lines.
    async fn import<'a>(
        &self,
        namespace: &str,
        logs: impl IntoIterator<Item = &'a Vec<u8>>,
        counter_of: impl Fn(&AccessCounterLayer) -> LogCounter,
    ) -> u64 {
        copy_salts(&self.redis, "served:", namespace);
        let store = store_in(&self.redis.url(), namespace.parse().expect("a namespace")).await;
        let counters = Counters::builder(store).build().expect("the defaults are fine");
        let mut malformed = 0;
        for (kind, (log, layer)) in logs.into_iter().zip(layers(&counters)).enumerate() {
            let format = Format::pattern(PATTERN).expect("a pattern");
            let mut import = Import::new(counters.sources(), format, counter_of(&layer));
            let open = |position: u64| {
                Ok(Some(Lines::new(&log[usize::try_from(position).expect("short")..], position)))
            };
            let name = format!("log {kind}").parse().expect("a name");
            import.count(name, open).await.expect("the store is there");
            malformed += import.malformed().total();
        }
        malformed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_counts_and_what_its_logs_count_are_equal_keys_and_values() {
    let mut random = Random::storm("of requests");
    let requests: Vec<_> = (0..REQUESTS).map(|_| Asked::random(&mut random)).collect();
    let refused = requests.iter().filter(|asked| asked.fate == Fate::Refused).count() as u64;
    let mut stack = Stack::start().await;
    let logs = stack.serve_all(&requests).await;

    let of_the_site = logs.iter().map(|logs| &logs.of_the_site);
    assert_eq!(stack.import("site:", of_the_site, LogCounter::new).await, 0);
    let of_nginx = logs.iter().map(|logs| &logs.of_nginx);
    let behind = |layer: &AccessCounterLayer| {
        LogCounter::new(layer).behind(Forwarded::X_FORWARDED_FOR, Ipv4Addr::LOCALHOST.into())
    };
    assert_eq!(stack.import("nginx:", of_nginx, behind).await, refused);

    let served = contents(&stack.redis, "served:");
    for log in ["site:", "nginx:"] {
        assert_same(&served, &contents(&stack.redis, log));
    }
    // They show something.
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
