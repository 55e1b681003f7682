//! Values and questions that several tests share.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::stores::WriterId;
use counter_core::time::Grid;
use counter_core::visits::{Batch, Cell, Fence, FenceKind};
use counter_core::{CounterName, Counters, Precision, RedisStore, Sample, Store, Timestamp};
use http::Request;
use tests::{RedisServer, until};
use tower::Service;

/// How long a storm lasts, which by default is as short as it may be: `COUNTER_STORM_SECONDS`, or 4.
pub(crate) fn storm_seconds() -> u64 {
    let said = std::env::var("COUNTER_STORM_SECONDS").ok();
    said.map_or(4, |seconds| seconds.parse().expect("COUNTER_STORM_SECONDS is a whole number"))
}

/// The user agent of somebody.
pub(crate) const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// The user agent of a program.
pub(crate) const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

pub(crate) fn name(text: &str) -> CounterName {
    CounterName::new(text).expect("a counter's name")
}

pub(crate) fn precision(seconds: u32) -> Precision {
    Precision::new(NonZeroU32::new(seconds).expect("not 0"))
}

pub(crate) fn unix(seconds: u64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

/// The Unix second at which a key expires. Redis 6.2 does not know `EXPIRETIME`.
pub(crate) fn expiry(server: &RedisServer, key: &str) -> u64 {
    let now = || {
        let time = server.strings(&["TIME"]);
        Duration::from_secs(time[0].parse().expect("seconds"))
            + Duration::from_micros(time[1].parse().expect("microseconds"))
    };
    loop {
        let before = now();
        let left = u64::try_from(server.int(&["PTTL", key])).expect("it expires");
        // What passed between the questions is not known better than this.
        if now() - before < Duration::from_millis(500) {
            return (before + Duration::from_millis(left + 500)).as_secs();
        }
    }
}

/// Counts a hit of each of these counters at an instant, however long ago: a recorder would count it only where
/// it is still kept.
pub(crate) async fn count_at(store: &impl Store, counters: &[String], at: Timestamp) {
    let grid = Arc::new(Grid::default());
    let finest = grid.counts.iter().next().expect("a precision").precision;
    for shard in store.shards().iter() {
        let of_shard = counters.iter().filter(|counter| store.shards().of(counter) == shard);
        let cell = |counter: &String| Cell { counter: name(counter), start: at, finest, count: 1 };
        let fence = Fence { writer: WriterId::random(), kind: FenceKind::Process, sequence: 1, after: 0 };
        let (cells, grid) = (of_shard.map(cell).collect(), Arc::clone(&grid));
        let batch = Batch { shard, fence, cells, sketches: Vec::new(), grid };
        store.apply(&batch).await.expect("the store is there");
    }
}

/// All the time there is.
pub(crate) fn always() -> Range<Timestamp> {
    Timestamp::MIN..Timestamp::MAX
}

/// A store that is connected.
pub(crate) async fn store(url: &str) -> RedisStore {
    store_in(url, Namespace::default()).await
}

pub(crate) async fn store_in(url: &str, namespace: Namespace) -> RedisStore {
    let store = RedisStore::connect(url, namespace).await.expect("an address");
    let there = async || store.known(&[precision(1)], "", 1).await.is_ok();
    until("the store is connected", tests::LIMIT, there).await;
    store
}

/// Flushes, and reads what every counter there is has counted today, and yesterday if it is midnight.
pub(crate) async fn counted(counters: &mut Counters) -> BTreeMap<String, u64> {
    counters.flush().await.expect("memory takes all");
    let (stats, now) = (counters.stats(), Timestamp::now());
    let mut counted = BTreeMap::new();
    for (counter, _) in stats.list_counters(None, 1000).await.expect("memory can be read").counters {
        let range = now.minus(2 * 86_400)..now.plus(1);
        let total = stats.total(&counter, precision(86_400), range).await.expect("memory can be read");
        counted.insert(counter.to_string(), total);
    }
    counted
}

/// How often memory is allocated at the least in one of several runs: a second may begin in any of them, and
/// its cells be closed.
pub(crate) fn fewest(mut run: impl FnMut() -> u64) -> u64 {
    (0..5).map(|_| run()).min().expect("five runs")
}

/// How often memory is allocated while a service answers these requests, each of them at once.
pub(crate) fn allocations<S: Service<Request<()>>>(service: &mut S, requests: Vec<Request<()>>) -> u64 {
    let answer_all = || {
        for request in requests {
            let mut response = pin!(service.call(request));
            assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    };
    allocation_counter::measure(answer_all).count_total
}

/// The samples of counters in a store in which all of them can be read.
pub(crate) async fn samples_of(
    store: &impl Store,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Vec<Vec<Sample>> {
    let readings = store.samples(counters, precision, range, 120).await.expect("readable");
    readings.into_iter().map(|reading| reading.expect("a counter").samples).collect()
}
