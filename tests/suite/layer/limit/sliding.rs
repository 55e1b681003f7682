//! A limit with a sliding window.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use counter_core::MemoryStore;
use counter_core::window::{Dimensions, Window, WindowCounters};
use counter_layer::{LimitKey, OnStoreError, WindowLimit, WindowLimitLayer};
use http::{Request, Response};
use tests::RedisServer;
use tokio::time::sleep;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::store;

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

async fn sleep_until(unix: Duration) {
    while let Some(left) = unix.checked_sub(unix_time()).filter(|left| !left.is_zero()) {
        sleep(left).await;
    }
}

async fn statuses<S>(service: &WindowLimit<S>, requests: usize) -> Vec<(u16, Option<u64>)>
where
    S: Service<Request<()>, Response = Response<()>, Error = Infallible> + Clone,
{
    let mut statuses = Vec::new();
    for _ in 0..requests {
        let response = service.clone().oneshot(Request::new(())).await.expect("it answers");
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("ASCII"));
        assert_eq!(header("ratelimit-policy"), Some("\"default\";q=2;w=3"));
        let retry_after = header("retry-after").map(|seconds| seconds.parse().expect("seconds"));
        statuses.push((response.status().as_u16(), retry_after));
    }
    statuses
}

#[tokio::test]
async fn a_burst_around_the_end_of_a_window_is_limited() {
    let server = RedisServer::start();
    let redis = store(&server.url()).await;
    let edge = unix_time().as_secs() + 2;
    // A fixed window ends at the edge.
    let offset = u32::try_from(edge % 3).expect("less than 3");
    let window = Window::try_from(3).expect("not 0").starting_at(offset).expect("less");
    let inner = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    let key = || LimitKey::from_fn(|_| Some(Dimensions::new()));
    let layer = |counters| WindowLimitLayer::new(counters, 2, key(), OnStoreError::Deny);
    let fixed = layer(WindowCounters::new(MemoryStore::new(), window)).layer(inner);
    let sliding = [WindowCounters::new(MemoryStore::new(), window), WindowCounters::new(redis, window)]
        .map(|counters| layer(counters).sliding().layer(inner));
    sleep_until(Duration::from_millis(edge * 1000 - 200)).await;
    for limited in [&fixed, &sliding[0], &sliding[1]] {
        assert_eq!(statuses(limited, 2).await, [(200, None); 2]);
    }
    let is_quick = unix_time().as_secs() < edge;
    // The clock of the memory store can be some milliseconds late.
    sleep_until(Duration::from_millis(edge * 1000 + 20)).await;
    // The burst leaves the window four seconds after the start of its second.
    let mut longest = 0;
    for limited in &sliding {
        let rejected = statuses(limited, 2).await;
        let is_quick = is_quick && unix_time().as_secs() == edge;
        let is_right = |(status, retry_after): &(u16, Option<u64>)| {
            *status == 429 && (!is_quick || *retry_after == Some(3))
        };
        assert!(rejected.iter().all(is_right), "{rejected:?}");
        longest = longest.max(rejected[0].1.expect("it is rejected"));
    }
    if is_quick && unix_time().as_secs() < edge + 3 {
        assert_eq!(statuses(&fixed, 1).await, [(200, None)], "a fixed window starts here");
    }
    sleep(Duration::from_secs(longest)).await;
    for limited in &sliding {
        assert_eq!(statuses(limited, 2).await[0], (200, None));
    }
}
