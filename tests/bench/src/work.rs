//! The operations that the gate checks: recording a hit, and requests that may pass the layer.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath};
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Distribution, Measure};
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::{AccessCounterLayer, Facet, Identity, Ignore, Label, Rule, Rules};
use http::{Extensions, Request, Response};
use tower::{Layer, Service, ServiceExt};

/// A named operation.
pub struct Work {
    pub name: &'static str,
    pub prepare: fn() -> Run,
    /// The operation to subtract, in order to get the cost of counting.
    pub baseline: Option<&'static str>,
}

/// Runs the operation this number of times.
pub type Run = Box<dyn FnMut(u64)>;

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub static WORK: [Work; 14] = [
    Work { name: "record", prepare: record, baseline: None },
    Work { name: "in_flight", prepare: in_flight, baseline: None },
    Work { name: "bare", prepare: bare, baseline: None },
    Work { name: "visitors", prepare: visitors, baseline: Some("bare") },
    Work { name: "anonymous", prepare: anonymous, baseline: Some("bare") },
    Work { name: "rules", prepare: rules, baseline: Some("bare") },
    Work { name: "unmatched", prepare: unmatched, baseline: Some("bare") },
    Work { name: "facets", prepare: facets, baseline: Some("bare") },
    Work { name: "measured", prepare: measured, baseline: Some("bare") },
    Work { name: "labelled", prepare: labelled, baseline: Some("bare") },
    Work { name: "by_page", prepare: by_page, baseline: Some("bare") },
    Work { name: "views", prepare: views, baseline: Some("bare") },
    Work { name: "addresses", prepare: addresses, baseline: Some("bare") },
    Work { name: "ignoring", prepare: ignoring, baseline: Some("bare") },
];

impl Work {
    /// Returns the operation with this name, if it exists.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WORK.iter().find(|work| work.name == name)
    }
}

/// A browser's user agent.
pub const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// The referrer to be sent with requests.
const REFERRER: &str = "https://news.example.com/item?id=7";

/// Records hits with visitors on 100 counters.
fn record() -> Run {
    let recorder = recorder();
    let counters: Vec<_> = (0..100).map(|n| recorder.counter(&format!("/page/{n}"))).collect();
    let key = VisitorKey::new([7; 16]);
    let visitors: Vec<_> = (0_u32..64).map(|n| key.visitor(&[&n.to_le_bytes()])).collect();
    Box::new(move |count| {
        for (counter, visitor) in counters.iter().cycle().zip(visitors.iter().cycle()).take(to_usize(count)) {
            recorder.record(*counter, *visitor);
        }
    })
}

/// A request that enters and leaves the gauge of requests in flight.
fn in_flight() -> Run {
    let gauge = recorder().in_flight();
    Box::new(move |count| (0..count).for_each(|_| drop(black_box(gauge.enter()))))
}

/// Requests to the bare service.
fn bare() -> Run {
    run_requests(|service| service, matched())
}

/// The layer with default settings.
fn visitors() -> Run {
    let layer = AccessCounterLayer::new(recorder());
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with visitor identification disabled.
fn anonymous() -> Run {
    let layer = AccessCounterLayer::new(recorder()).identity(Identity::none()).expect("it needs no salt");
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with 100 path rules.
fn rules() -> Run {
    let layer = AccessCounterLayer::new(recorder()).rules(hundred_rules());
    run_requests(|service| layer.layer(service), matched())
}

/// Requests that don't have a matched route, e.g. if the layer wraps a service that isn't a router.
fn unmatched() -> Run {
    let layer = AccessCounterLayer::new(recorder());
    run_requests(|service| layer.layer(service), Extensions::new())
}

/// The layer with every facet.
fn facets() -> Run {
    let layer = AccessCounterLayer::new(recorder()).facets([Facet::Status, Facet::Method, Facet::Agent]);
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with distributions for times and statuses.
fn measured() -> Run {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    let recorder = counters.build().expect("the defaults are fine").recorder();
    let layer = AccessCounterLayer::new(recorder).distributions([Measure::Time, Measure::Status]);
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with labels for referrers and languages.
fn labelled() -> Run {
    let layer = AccessCounterLayer::new(recorder());
    let layer = layer.labels([Label::referrer(), Label::language()]).expect("names of labels");
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with labels for referrers and languages, which are also counted per page.
fn by_page() -> Run {
    let labels = [Label::referrer().by_page(), Label::language().by_page()];
    let layer = AccessCounterLayer::new(recorder()).labels(labels).expect("names of labels");
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with views.
fn views() -> Run {
    let layer = AccessCounterLayer::new(recorder()).views();
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with labels for the addresses and the sources of views.
fn addresses() -> Run {
    let labels = [Label::address(), Label::source()];
    let layer = AccessCounterLayer::new(recorder()).labels(labels).expect("names of labels");
    run_requests(|service| layer.layer(service), matched())
}

/// The layer with a network and a cookie to ignore, which do not match.
fn ignoring() -> Run {
    let network = "198.51.100.0/24".parse().expect("a network");
    let conditions = [Ignore::networks(Identity::peer(), [network]), Ignore::cookie()];
    let layer = AccessCounterLayer::new(recorder()).ignore(conditions);
    run_requests(|service| layer.layer(service), matched())
}

/// Builds 100 rules, almost all of them templates. `/articles/7` matches the final rule.
#[must_use]
pub fn hundred_rules() -> Rules {
    let section = |n| Rule::counter(format!("section {n}")).pattern(format!("/section{n}/{{id}}/details"));
    (0..97)
        .map(section)
        .fold(Rules::builder(), |rules, rule| rules.rule(rule))
        .rule(Rule::counter("static").pattern("/static/*"))
        .rule(Rule::counter("home").pattern(""))
        .rule(Rule::counter("articles").pattern("/articles/{id}"))
        .build()
        .expect("the rules do not conflict")
}

/// Returns the extensions that a router adds to a request.
#[must_use]
pub fn matched() -> Extensions {
    let keep = async |matched: MatchedPath| {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(matched);
        response
    };
    let site = Router::new().route("/articles/{id}", get(keep));
    let request = Request::get("/articles/7").body(Body::empty()).expect("a request");
    let mut response = pin!(site.oneshot(request));
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => response.into_parts().0.extensions,
        Poll::Ready(Err(_)) | Poll::Pending => unreachable!("the handler never waits"),
    }
}

/// Sends requests from sixteen clients in turn. Requests are reused, because building them would take longer
/// than the code we want to measure.
fn run_requests<S>(layer: impl FnOnce(RecyclingService) -> S, extensions: Extensions) -> Run
where
    S: Service<Request<()>, Response = Response<()>, Error = Infallible> + 'static,
{
    let recycled = Rc::new(Cell::new(None));
    let mut service = layer(RecyclingService(Rc::clone(&recycled)));
    let mut requests: [_; 16] = std::array::from_fn(|n| {
        let mut request = Request::get("/articles/7")
            .header("user-agent", BROWSER)
            .header("referer", REFERRER)
            .header("accept-language", "de-CH,de;q=0.9")
            .body(())
            .expect("a request");
        let address = SocketAddr::from(([192, 0, 2, u8::try_from(n).expect("sixteen")], 1000));
        *request.extensions_mut() = extensions.clone();
        request.extensions_mut().insert(ConnectInfo(address));
        Some(request)
    });
    Box::new(move |count| {
        let mut context = Context::from_waker(Waker::noop());
        for n in 0..to_usize(count) {
            let slot = &mut requests[n % 16];
            let mut response = pin!(service.call(slot.take().expect("the request has been returned")));
            match response.as_mut().poll(&mut context) {
                Poll::Ready(Ok(response)) => drop(black_box(response)),
                Poll::Ready(Err(never)) => match never {},
                Poll::Pending => unreachable!("the service never waits"),
            }
            *slot = recycled.take();
        }
    })
}

/// Responds and puts the request into this cell, so that it can be reused.
struct RecyclingService(Rc<Cell<Option<Request<()>>>>);

impl Service<Request<()>> for RecyclingService {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.0.set(Some(request));
        ready(Ok(Response::new(())))
    }
}

fn recorder() -> Recorder {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").recorder()
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).expect("the count fits")
}
