//! The cost of the first copy into an archive.

use std::sync::Arc;

use counter_core::archive::Archive;
use counter_core::stores::WriterId;
use counter_core::time::Grid;
use counter_core::visits::store::{Batch, Cell, Value, Write};
use counter_core::visits::{Bin, Distribution};
use counter_core::{Counters, MemoryStore, RedisStore, Timestamp};
use tests::{FaultProxy, RedisServer};

use super::copies::hit;
use super::send;
use crate::support::{self, name, precision, store};

/// Hours and days with hits, in the past.
const HOURS: [u64; 3] = [3, 30, 60];

/// Fills a store with pages and label values by page, all with hits, and with the times of some of the pages.
async fn fill(store: &RedisStore, pages: usize, labels: usize, measured: usize) -> Arc<Grid> {
    let grid = Arc::new(Grid { distributions: Some(Distribution::precisions()), ..Grid::default() });
    let now = Timestamp::now();
    let page = |number| format!("/page/{number}");
    let label = |number: usize| format!("label:referrer@:{} = site {number}", page(number % pages));
    let names: Vec<_> = (0..pages).map(page).chain((0..labels).map(label)).collect();
    for some in names.chunks(500) {
        let hits = some.iter().flat_map(|name| HOURS.map(|ago| hit(name, now.minus(3600 * ago), 3600)));
        send(store, &grid, hits.collect()).await;
    }
    let cell = |number, ago: u64| Cell {
        counter: name(&page(number)),
        start: now.minus(3600 * ago),
        finest: precision(3600),
        value: Value::Distribution(vec![(Bin::status(200), 1)]),
    };
    let cells = (0..measured).flat_map(|number| HOURS.map(|ago| cell(number, ago))).collect();
    let batch = Batch { grid: Arc::clone(&grid), ..support::batch(WriterId::random(), 1, cells) };
    store.apply(&batch).await.expect("the store is available");
    grid
}

/// Reads a dump of a store to the end.
async fn read_dump(near: RedisStore) {
    let counters = Counters::builder(near).distributions(Distribution::precisions()).build();
    let mut dump = counters.expect("good settings").stats().dump();
    while dump.next().await.expect("the store is available").is_some() {}
    assert!(dump.dumped().distributions > 0);
}

#[tokio::test]
async fn a_first_copy_reads_only_distributions_that_exist() {
    const MEASURED: usize = 5;
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let near = store(&proxy.url()).await;
    let grid = fill(&near, 60, 600, MEASURED).await;
    let archive = Archive::new(near.clone(), MemoryStore::new());
    let mut copier = archive.copier(&grid);
    let counts = || (redis.calls("hgetall"), proxy.round_trips());
    let before = counts();
    let copied = copier.copy_once(Timestamp::now()).await.expect("both stores are available");
    assert!(copied.distributions >= (MEASURED * HOURS.len()) as u64, "{copied:?}");
    let after = counts();
    let (read, trips) = (after.0 - before.0, after.1 - before.1);
    read_dump(near).await;
    let dump = proxy.round_trips() - after.1;
    // A page with a distribution is read with all buckets of a part, i.e. of 24 buckets. Some are copied twice.
    let parts = 2 * 2 * HOURS.len();
    assert!(read <= (MEASURED * parts * 24) as u64, "{read} HGETALL");
    assert!(trips <= dump, "{trips} round trips, and {dump} for a dump");
}
