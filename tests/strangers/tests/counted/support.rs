//! A program with a Redis server, and a client that keeps a tally of responses.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use counter_core::stores::Namespace;
use counter_core::{CounterName, Counters, Precision, RedisStore, Timestamp};
use fastrand::Rng;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tests::{LIMIT, Process, RedisServer};
use tokio::time::timeout;

/// Maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// A browser's user agent.
pub(crate) const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// A request, and the counter where it should be counted in addition to `hits`.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) counter: Option<&'static str>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The client address.
    pub(crate) from: IpAddr,
}

impl Visit {
    pub(crate) fn new(
        method: &str,
        path: impl Into<String>,
        counter: impl Into<Option<&'static str>>,
    ) -> Self {
        let (method, path) = (method.parse().expect("a method"), path.into());
        let mut headers = HeaderMap::new();
        headers.insert(http::header::USER_AGENT, BROWSER.parse().expect("a value"));
        let (body, from) = (String::new(), Ipv4Addr::LOCALHOST.into());
        Self { method, path, counter: counter.into(), headers, body, from }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().expect("a value"));
        self
    }

    pub(crate) fn form(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self.header("content-type", "application/x-www-form-urlencoded") }
    }

    pub(crate) fn from(self, from: impl Into<IpAddr>) -> Self {
        Self { from: from.into(), ..self }
    }
}

/// A response with a complete body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

/// Returns the path to an example of `counter-layer`, which `tests/strangers/run` builds into the same folder.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_pastebin")).with_file_name(name)
}

/// A program, its Redis server, and the expected counts.
#[derive(Debug)]
pub(crate) struct TestApp {
    pub(crate) program: Process,
    pub(crate) address: SocketAddr,
    pub(crate) redis: RedisServer,
    pub(crate) tally: Tally,
}

impl TestApp {
    /// Starts a program like `env!("CARGO_BIN_EXE_pastebin")`.
    pub(crate) async fn start(program: impl AsRef<Path>, arguments: &[&Path]) -> Self {
        let redis = RedisServer::start();
        let mut command = Command::new(program.as_ref());
        command.args(arguments).env("REDIS_URL", redis.url()).env("LISTEN", "127.0.0.1:0");
        let program = Process::start(&mut command);
        let address = program.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
        Self { program, address, redis, tally: Tally::default() }
    }

    /// Sends a request.
    pub(crate) async fn request(&mut self, visit: Visit) -> Response {
        let mut responses = self.request_all(vec![visit]).await;
        responses.pop().expect("a response per request")
    }

    /// Sends requests concurrently. The responses are returned in any order.
    pub(crate) async fn request_all(&mut self, visits: Vec<Visit>) -> Vec<Response> {
        self.request_via(self.address, visits).await
    }

    /// Sends requests via another server.
    pub(crate) async fn request_via(&mut self, address: SocketAddr, visits: Vec<Visit>) -> Vec<Response> {
        let clients: BTreeMap<_, _> = visits.iter().map(|visit| (visit.from, client(visit.from))).collect();
        let requests = visits.into_iter().map(|visit| {
            let client = &clients[&visit.from];
            async move {
                let response =
                    timeout(LIMIT, request(client, address, &visit)).await.expect("a response in time");
                (visit, response)
            }
        });
        let mut responses = Vec::new();
        let mut requests = stream::iter(requests).buffer_unordered(MAX_CONCURRENT_REQUESTS);
        while let Some((visit, response)) = requests.next().await {
            self.tally.add(&visit.method, visit.counter, &class(response.status));
            responses.push(response);
        }
        responses
    }

    /// Stops the program with a SIGINT, and compares the stored counts with the tally.
    pub(crate) async fn check(&mut self) {
        self.program.interrupt();
        let status = self.program.wait(LIMIT).await;
        assert!(status.success(), "{status}\n{}", self.program);
        self.compare().await;
    }

    /// Compares the stored counts with the tally.
    pub(crate) async fn compare(&self) {
        assert_eq!(
            self.counted().await,
            self.tally.0,
            "stored counts and client tally differ\n{}",
            self.program
        );
    }

    /// Returns the lifetime totals of all counters in Redis.
    async fn counted(&self) -> BTreeMap<String, u64> {
        let counters = self.counters().await;
        let stats = counters.stats();
        let known = stats.list_counters(None, 1000).await.expect("Redis is there").counters;
        let names: Vec<CounterName> = known.into_iter().map(|(name, _)| name).collect();
        let totals = stats.lifetimes(&names).await.expect("Redis is there");
        names.iter().map(|name| name.to_string()).zip(totals).collect()
    }

    /// Checks the number of visitors in Redis. Two of them might share a register, because the salt is random.
    pub(crate) async fn check_visitors(&self, expected: u64) {
        let visitors = self.visitors().await;
        assert!((expected - 1..=expected).contains(&visitors), "{visitors} visitors instead of {expected}");
    }

    /// Returns the number of visitors in Redis.
    pub(crate) async fn visitors(&self) -> u64 {
        let (counters, now) = (self.counters().await, Timestamp::now());
        let (hits, day) = (["hits".parse().expect("a name")], Precision::try_from(86_400).expect("a day"));
        let range = now.minus(2 * 86_400)..now.plus(1);
        counters.stats().uniques(&hits, day, range).await.expect("Redis is there").visitors
    }

    async fn counters(&self) -> Counters {
        let store = RedisStore::connect(&self.redis.url(), Namespace::default()).await.expect("an address");
        Counters::builder(store).build().expect("the defaults are fine")
    }
}

/// The counts that clients expect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Adds a request. `status` is the name of a status counter, but with no prefix.
    pub(crate) fn add(&mut self, method: &Method, counter: Option<&str>, status: &str) {
        let (method, status) = (format!("method:{method}"), format!("status:{status}"));
        for name in [Some("hits"), counter, Some(&method), Some(&status)].into_iter().flatten() {
            self.count(name);
        }
    }

    /// Increments a counter.
    pub(crate) fn count(&mut self, counter: &str) {
        *self.0.entry(counter.to_owned()).or_default() += 1;
    }

    /// Returns the expected count of a counter.
    pub(crate) fn of(&self, counter: &str) -> u64 {
        self.0.get(counter).copied().unwrap_or_default()
    }
}

/// Returns the status class as used in counter names.
pub(crate) fn class(status: u16) -> String {
    format!("{}xx", status / 100)
}

/// Generates `count` visits using randomly chosen functions. The result only depends on the seed.
pub(crate) fn random_visits(count: usize, seed: u64, kinds: &[&dyn Fn(&mut Rng) -> Visit]) -> Vec<Visit> {
    let mut random = Rng::with_seed(seed);
    let visits: Vec<_> = (0..count).map(|_| kinds[random.usize(..kinds.len())](&mut random)).collect();
    let counter_names: HashSet<_> = visits.iter().filter_map(|visit| visit.counter).collect();
    assert!(!counter_names.is_empty(), "no visit has a counter");
    visits
}

fn client(from: IpAddr) -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_local_address(Some(from));
    Client::builder(TokioExecutor::new()).build(connector)
}

async fn request(
    client: &Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    visit: &Visit,
) -> Response {
    let uri = format!("http://{address}{}", visit.path);
    let request = Request::builder().method(&visit.method).uri(uri);
    let mut request = request.body(visit.body.clone().into()).expect("a request");
    request.headers_mut().clone_from(&visit.headers);
    let (head, body) = client.request(request).await.expect("a response").into_parts();
    body.collect().await.expect("a complete body");
    Response { status: head.status.as_u16(), headers: head.headers }
}

/// Returns the current lifetime total of a counter in Redis.
pub(crate) async fn lifetime(redis: &str, counter: &str) -> u64 {
    let store = RedisStore::connect(redis, Namespace::default()).await.expect("an address");
    let counters = Counters::builder(store).build().expect("the defaults are fine");
    let names = [counter.parse().expect("a name")];
    counters.stats().lifetimes(&names).await.expect("Redis is there")[0]
}
