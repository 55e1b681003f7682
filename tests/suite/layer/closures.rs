//! Application closures that panic: the request must not fail because of this.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use counter_core::visits::Agent;
use counter_core::{Counter, Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Identity, Outcome, RequestHead};
use http::{Request, Response};
use tower::{Layer, Service, service_fn};

use crate::support::{BROWSER, counted};

type Change = fn(AccessCounterLayer) -> AccessCounterLayer;

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

/// Sends a request, whose handler may panic, and returns `true` if it succeeds.
fn visit(layer: &AccessCounterLayer, handler_panics: bool) -> bool {
    let inner = service_fn(async |request: Request<()>| {
        assert!(request.uri().path() != "/panic", "the handler's own panic");
        Ok::<_, &str>(Response::new(()))
    });
    let path = if handler_panics { "/panic" } else { "/" };
    let request = Request::get(path).header("user-agent", BROWSER).body(()).expect("a request");
    let mut service = layer.layer(inner);
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let mut response = pin!(service.call(request));
        matches!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(_)))
    }));
    answered.unwrap_or(false)
}

#[tokio::test]
async fn a_panic_of_count_if_after_a_handler_panic_does_not_abort_and_counts() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).count_if(|outcome| match outcome {
        Outcome::Responded(status) => status.is_success(),
        other => panic!("the closure's own panic about {other:?}"),
    });
    assert!(!visit(&layer, true));
    assert!(visit(&layer, false));
    assert_eq!(counted(&mut counters).await["hits"], 2);
}

#[tokio::test]
async fn a_panicking_closure_neither_fails_a_request_nor_loses_the_hit() {
    let changes: [(&str, Change); 6] = [
        ("classify_agent", |layer| layer.classify_agent(|_| -> Agent { panic!("of classify_agent") })),
        ("fallback", |layer| layer.fallback(|_| -> Option<Counter> { panic!("of fallback") })),
        ("count_if", |layer| layer.count_if(|_| panic!("of count_if"))),
        ("on_count", |layer| layer.on_count(|_| Some(|_: Outcome| panic!("of on_count")))),
        ("from_fn", |layer| {
            let identity =
                Identity::from_fn(|_: &RequestHead<'_>| -> Option<String> { panic!("of an identity") });
            layer.identity(identity).expect("it lasts for an epoch")
        }),
        ("extension", |layer| {
            let identity = Identity::extension(|(): &()| -> Option<String> { panic!("of an identity") });
            layer.identity(identity.stable()).expect("it is stable")
        }),
    ];
    for (name, change) in changes {
        for handler_panics in [false, true] {
            let mut counters = counters();
            let layer = change(AccessCounterLayer::new(counters.recorder()));
            assert_eq!(visit(&layer, handler_panics), !handler_panics, "{name}");
            assert_eq!(counted(&mut counters).await["hits"], 1, "{name}");
        }
    }
}

/// A value that panics on drop, captured by a closure.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the captured value panics on drop");
    }
}

#[test]
fn captured_values_may_panic_on_drop_after_a_handler_panic() {
    let counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).count_if(|_| false).on_count(|_| {
        let bomb = Bomb;
        Some(move |_: Outcome| drop(bomb))
    });
    assert!(visit(&layer, false));
    assert!(!visit(&layer, true));
}
