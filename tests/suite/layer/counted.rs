//! The `on_count` hook.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Waker};

use counter_core::visits::Agent;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Outcome, Rule, Rules};
use http::{Request, Response, StatusCode};
use tower::{Layer, Service, service_fn};

use crate::support::{BOT, BROWSER, allocations, fewest};

/// Creates a layer that reports counted requests to `/posts/{id}` via the channel.
fn reports(counters: &Counters) -> (AccessCounterLayer, Receiver<(u64, Agent, Outcome)>) {
    let (sender, reports) = channel();
    let layer = AccessCounterLayer::new(counters.recorder()).on_count(move |visit| {
        let post = visit.head.uri.path().strip_prefix("/posts/")?.parse().ok()?;
        let (sender, agent) = (sender.clone(), visit.agent);
        Some(move |outcome| sender.send((post, agent, outcome)).expect("the test listens"))
    });
    (layer, reports)
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn request(path: &str, agent: &str) -> Request<()> {
    Request::get(path).header("user-agent", agent).body(()).expect("a request")
}

/// Sends a request. The last path segment selects the outcome.
fn visit(layer: &AccessCounterLayer, path: &str, agent: &str) {
    let inner = service_fn(|request: Request<()>| async move {
        match request.uri().path() {
            "/posts/404" => Ok(Response::builder().status(404).body(()).expect("a response")),
            "/posts/500" => Err("out of order"),
            "/posts/666" => panic!("the handler's own panic"),
            "/posts/499" => pending().await,
            _ => Ok(Response::new(())),
        }
    });
    let mut service = layer.layer(inner);
    drop(catch_unwind(AssertUnwindSafe(|| {
        let mut response = pin!(service.call(request(path, agent)));
        drop(response.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    })));
}

#[test]
fn on_count_runs_once_for_any_outcome() {
    let counters = counters();
    let (layer, reports) = reports(&counters);
    let answered = Outcome::Responded;
    for (path, agent, expected) in [
        ("/posts/1", BROWSER, Some((1, Agent::Human, answered(StatusCode::OK)))),
        ("/posts/2", BOT, Some((2, Agent::Bot, answered(StatusCode::OK)))),
        ("/posts/404", BROWSER, Some((404, Agent::Human, answered(StatusCode::NOT_FOUND)))),
        ("/posts/500", BROWSER, Some((500, Agent::Human, Outcome::Failed))),
        ("/posts/666", BROWSER, Some((666, Agent::Human, Outcome::Panicked))),
        ("/posts/499", BROWSER, Some((499, Agent::Human, Outcome::Aborted))),
        ("/posts/one", BROWSER, None),
        ("/", BROWSER, None),
    ] {
        visit(&layer, path, agent);
        let all: Vec<_> = reports.try_iter().collect();
        assert_eq!(all, expected.into_iter().collect::<Vec<_>>(), "{path}");
    }
    let never = service_fn(|_: Request<()>| pending::<Result<Response<()>, &str>>());
    let at_arrival = layer.count_on_request().layer(never).call(request("/posts/1", BROWSER));
    assert_eq!(reports.try_recv(), Ok((1, Agent::Human, Outcome::Unknown)));
    drop(at_arrival);
    assert!(reports.try_recv().is_err());
}

#[test]
fn on_count_does_not_run_for_a_request_that_does_not_count() {
    let counters = counters();
    let (layer, reports) = reports(&counters);
    let posts = Rule::counter("posts").pattern("/posts/*");
    let rules = Rules::builder().rule(posts).exclude("/posts/7").build().expect("good rules");
    let layer = layer.rules(rules).count_if(|outcome| outcome.is_success());
    for path in ["/posts/1", "/posts/404", "/posts/499", "/posts/7"] {
        visit(&layer, path, BROWSER);
    }
    let posts: Vec<_> = reports.try_iter().map(|(post, ..)| post).collect();
    assert_eq!(posts, [1]);
    assert_eq!(counters.recorder().ledger().requests.recorded, 1);
}

#[test]
fn a_panic_of_on_count_does_not_fail_the_request() {
    let counters = counters();
    let looking = |layer: AccessCounterLayer| {
        layer.on_count(|visit| {
            assert!(visit.head.uri.path() != "/posts/1", "the closure's own panic, at arrival");
            Some(|_: Outcome| panic!("the closure's own panic"))
        })
    };
    let layer = looking(AccessCounterLayer::new(counters.recorder()));
    let mut service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, &str>(Response::new(()))));
    for path in ["/posts/1", "/posts/2"] {
        let mut response = pin!(service.call(request(path, BROWSER)));
        let result = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(result, std::task::Poll::Ready(Ok(_))), "{path}");
    }
    // If both the handler and the hook panic, the handler's panic must propagate.
    visit(&layer, "/posts/666", BROWSER);
    assert_eq!(counters.recorder().ledger().requests.recorded, 3);
}

#[test]
fn on_count_without_a_callback_does_not_allocate() {
    let counters = counters();
    let (layer, _told) = reports(&counters);
    let mut service =
        layer.layer(service_fn(|_: Request<()>| std::future::ready(Ok::<_, &str>(Response::new(())))));
    let requests = || (0..1000).map(|_| request("/articles/1", BROWSER)).collect();
    allocations(&mut service, requests());
    assert_eq!(fewest(|| allocations(&mut service, requests())), 0);
}
