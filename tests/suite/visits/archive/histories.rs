//! Random histories with months of hits, copies, cleaner passes, failures and forgotten counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::archive::{Archive, Copier};
use counter_core::sketch::Sketch;
use counter_core::stores::{StoreFuture, WriterId};
use counter_core::time::{Grid, Kind};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{ArchiveStore, Cell, Page, Progress, Value, Write};
use counter_core::{Error, ErrorKind, MemoryStore, Precision, Store, Timestamp};

use super::{clean, lifetime, retained, samples, send, sketch};
use crate::random::Random;
use crate::support::{name, precision, unix};

/// A far store without leases that can be made to fail for some calls.
#[derive(Clone, Debug, Default)]
struct Far {
    inner: MemoryStore,
    fails: Arc<AtomicBool>,
}

impl AsRef<dyn Store> for Far {
    fn as_ref(&self) -> &(dyn Store + 'static) {
        self.inner.as_ref()
    }
}

impl Far {
    fn pass(&self) -> Result<(), Error> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable)),
            false => Ok(()),
        }
    }
}

impl ArchiveStore for Far {
    fn lease(&self, _: WriterId, _: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(true) })
    }

    fn release(&self, _: WriterId) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        // This must be later than counters forgotten in this second, because days pass within a second here.
        Box::pin(async { Ok(Timestamp::now().plus(2)) })
    }

    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        Box::pin(async move {
            self.pass()?;
            self.inner.progress(kind, precision).await
        })
    }

    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.pass()?;
            self.inner.advance(kind, precision, progress).await
        })
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.pass()?;
            self.inner.put(page).await
        })
    }
}

const NAMES: [&str; 3] = ["/", "/about", "hits"];
const HOURS: u64 = 20;
const DAYS: u64 = 6;
/// Maximum time between copies, in hours.
const MAX_COPY_PAUSE: u64 = 10;

#[derive(Debug, Default)]
struct Counted {
    counts: BTreeMap<(u32, u64), u64>,
    visitors: BTreeMap<(u32, u64), Sketch>,
    lifetime: u64,
}

struct World {
    random: Random,
    now: Timestamp,
    near: MemoryStore,
    far: Far,
    archive: Archive,
    copiers: [Copier; 2],
    grid: Arc<Grid>,
    model: BTreeMap<&'static str, Counted>,
    /// Time of the latest complete copy.
    copied: Timestamp,
}

impl World {
    fn new(seed: u64) -> Self {
        let hours_and_days = retained(
            [(3600, HOURS), (86_400, DAYS)]
                .map(|(width, samples)| (width, u32::try_from(samples).expect("small"))),
        );
        let grid =
            Arc::new(Grid { counts: hours_and_days.clone(), visitors: hours_and_days, distributions: None });
        let (near, far) = (MemoryStore::new(), Far::default());
        let archive = Archive::new(near.clone(), far.clone());
        let copiers = [0; 2].map(|_| archive.copier(&grid));
        let now = unix(1_600_000_000);
        let (random, model) = (Random::new(seed), BTreeMap::new());
        Self { random, now, near, far, archive, copiers, grid, model, copied: now }
    }

    async fn step(&mut self) {
        self.now = self.now.plus(self.random.among(0..3 * 3600));
        match self.random.among(0..10) {
            0..=4 => self.hit().await,
            5 | 6 => clean(&self.archive, self.now, &self.grid.counts).await,
            7 => self.far.fails.store(self.random.among(0..2) == 0, Ordering::Relaxed),
            8 if self.random.among(0..10) == 0 => self.forget().await,
            _ => drop(self.copy().await),
        }
        // Failures must not be longer than the near store waits for a copy.
        if self.now > self.copied.plus(MAX_COPY_PAUSE * 3600) {
            self.far.fails.store(false, Ordering::Relaxed);
            self.copy().await.expect("no failures");
        }
    }

    async fn copy(&mut self) -> Result<(), Error> {
        let which = self.random.one_of(&[0, 1]);
        self.copiers[which].copy_once(self.now).await?;
        self.copied = self.now;
        Ok(())
    }

    async fn hit(&mut self) {
        let counter = self.random.one_of(&NAMES);
        let late = match self.random.among(0..4) {
            0 => self.random.among(0..(DAYS - 1) * 86_400),
            1 => self.random.among(0..(HOURS - 1) * 3600),
            2 => self.random.among(0..3 * 3600),
            _ => 0,
        };
        let (at, count) = (self.now.minus(late), 1 + self.random.among(0..9));
        let finest = if late < (HOURS - 1) * 3600 { 3600 } else { 86_400 };
        let counted = self.model.entry(counter).or_default();
        let starts = |finest: u32| {
            let precisions = [3600, 86_400].into_iter().filter(move |width| *width >= finest);
            precisions.map(move |width| (width, precision(width).bucket(at).start.as_unix()))
        };
        for place in starts(finest) {
            *counted.counts.entry(place).or_default() += count;
        }
        counted.lifetime += count;
        let (start, finest) = (at, precision(finest));
        let cell = |value| Cell { counter: name(counter), start, finest, value };
        let mut cells = vec![cell(Value::Count(count))];
        // Sketches expire without waiting for a copy, so a sketch may be too late if the bucket will not be
        // copied soon.
        if late < 2 * 3600 {
            let mut raised = Sketch::new();
            raised.insert(VisitorKey::new([3; 16]).visitor(&[&self.random.among(0..1 << 40).to_le_bytes()]));
            for place in starts(3600) {
                counted.visitors.entry(place).or_default().merge(&raised);
            }
            cells.push(cell(Value::Visitors(raised)));
        }
        send(&self.archive, &self.grid, cells).await;
        self.check(counter).await;
    }

    async fn forget(&mut self) {
        let counter = self.random.one_of(&NAMES);
        self.archive.forget(&name(counter), &self.grid, self.now).await.expect("memory accepts everything");
        self.model.remove(counter);
        self.check(counter).await;
    }

    /// Compares all recorded counts with the combined contents of both stores.
    async fn check(&self, counter: &'static str) {
        let nothing = Counted::default();
        let counted = self.model.get(counter).unwrap_or(&nothing);
        for width in [3600, 86_400] {
            let expected: Vec<_> = counted.counts.iter().filter(|((of, _), _)| *of == width).collect();
            let expected: Vec<_> = expected.into_iter().map(|((_, start), count)| (*start, *count)).collect();
            assert_eq!(samples(&self.archive, counter, width).await, expected, "{counter}, {width} s");
        }
        assert_eq!(lifetime(&self.archive, counter).await, counted.lifetime, "{counter}");
    }

    async fn check_visitors(&self) {
        for (counter, counted) in &self.model {
            for ((width, start), visitors) in &counted.visitors {
                let found = sketch(&self.archive, counter, *width, *start).await;
                assert_eq!(found, *visitors, "{counter}, {width} s from {start}");
            }
        }
    }
}

#[tokio::test]
async fn in_any_order_of_events_every_counted_bucket_is_readable() {
    for seed in Random::histories("histories of an archive", 100) {
        eprintln!("COUNTER_STORM_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step().await;
        }
        for counter in NAMES {
            world.check(counter).await;
        }
        world.check_visitors().await;
        // The near store should not have retained everything.
        let near = samples(&world.near, "/", 3600).await.len();
        assert!(near <= 2 * usize::try_from(HOURS).expect("small") + 60, "{near}");
    }
}
