//! Clients that note their additions and reads during the faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::unique::{SetUniqueCounter, UniqueCounter, UniqueStore};
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{Counters, Error, ErrorKind, Recorder, Stats, Store, Timestamp};
use tests::history::{History, Promise};
use tests::until;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::LIMIT;
use super::record::{CONFIRMED, Record, confirmed, precisions, weight};
use crate::random::Random;
use crate::support::{name as counter_name, precision};

/// How long a client waits for an acknowledgment.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of counters for windows.
const WINDOWS: usize = 2;

/// Name of a set of items.
const ITEMS: &str = "items";

/// Readers, and clients of windows and sets. The clients that record hits are part of an instance.
#[derive(Debug)]
pub(crate) struct Clients {
    name: &'static str,
    service: Service,
    promise: Promise,
    tasks: JoinSet<()>,
    done: Arc<AtomicBool>,
}

/// Access to a store, independent of the instances.
#[derive(Clone, Debug)]
struct Service {
    stats: Stats,
    windows: WindowCounters,
    /// An instant in the windows to be incremented.
    at: Timestamp,
    items: SetUniqueCounter,
    history: History,
}

impl Clients {
    pub(crate) fn start(
        name: &'static str,
        store: impl Store + UniqueStore + WindowStore + Clone,
        promise: Promise,
        random: &mut Random,
    ) -> Self {
        let service = Service {
            stats: Counters::builder(store.clone())
                .precisions(precisions())
                .build()
                .expect("good settings")
                .stats(),
            windows: WindowCounters::new(store.clone(), Window::DAY),
            items: SetUniqueCounter::new(store, counter_name(ITEMS)),
            at: Timestamp::now(),
            history: History::default(),
        };
        let (mut tasks, done) = (JoinSet::new(), Arc::<AtomicBool>::default());
        tasks.spawn(service.clone().read_again_and_again(random.fork(), Arc::clone(&done)));
        // Increments of a window and items are only sent once, so a failover can lose them.
        if promise != Promise::Eventual {
            for _ in 0..2 {
                tasks.spawn(service.clone().increment_again_and_again(random.fork(), Arc::clone(&done)));
                tasks.spawn(service.clone().include_again_and_again(random.fork(), Arc::clone(&done)));
            }
        }
        Self { name, service, promise, tasks, done }
    }

    pub(crate) fn history(&self) -> History {
        self.service.history.clone()
    }

    /// Reads each counter once more, and checks the history. All instances must have ended, and the servers must be
    /// healed.
    pub(crate) async fn end(mut self) {
        let Self { name, service, promise, .. } = self;
        let check = || service.history.check(promise);
        until("there were reads", LIMIT, async || check().map_or(true, |summary| summary.reads > 20)).await;
        self.done.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no panic");
        }
        service.history.settle();
        for counter in 0..CONFIRMED {
            until("hits can be read", LIMIT, async || service.read_lifetime(counter).await.is_ok()).await;
            until("samples can be read", LIMIT, async || service.read_samples(counter).await.is_ok()).await;
        }
        for window in 0..WINDOWS {
            until("windows can be read", LIMIT, async || service.read_window(window).await.is_ok()).await;
        }
        until("items can be read", LIMIT, async || service.read_items().await.is_ok()).await;
        service.history.save(name);
        let summary = check().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        assert!(summary.acknowledged > 0, "{summary:?}");
        eprintln!("{name}: {summary:?}");
    }
}

impl Service {
    async fn read_again_and_again(self, mut random: Random, done: Arc<AtomicBool>) {
        while !done.load(Ordering::Relaxed) {
            let (counter, window) = (random.index(CONFIRMED), random.index(WINDOWS));
            // A failed read proves nothing.
            drop(self.read_lifetime(counter).await);
            drop(self.read_samples(counter).await);
            drop(self.read_window(window).await);
            drop(self.read_items().await);
            sleep(random.millis(1..50)).await;
        }
    }

    async fn read_lifetime(&self, counter: usize) -> Result<(), Error> {
        let counter = confirmed(counter);
        let read = self.history.read(&counter);
        read.see(self.stats.lifetimes(&[counter]).await?.iter().sum());
        Ok(())
    }

    async fn read_samples(&self, counter: usize) -> Result<(), Error> {
        let counter = confirmed(counter);
        let read = self.history.read(&counter);
        let days = self.at.minus(2 * 86_400)..Timestamp::now().plus(60);
        read.see(self.stats.total(&counter, precision(86_400), days).await?);
        Ok(())
    }

    async fn read_window(&self, window: usize) -> Result<(), Error> {
        let (name, dimensions) = dimensions(window);
        let read = self.history.read(&name);
        read.see(self.windows.current_at(&dimensions, self.at).await?);
        Ok(())
    }

    async fn read_items(&self) -> Result<(), Error> {
        let read = self.history.read(ITEMS);
        read.see(self.items.count().await?.items());
        Ok(())
    }

    /// Includes new items, each as often as needed.
    async fn include_again_and_again(self, mut random: Random, done: Arc<AtomicBool>) {
        while !done.load(Ordering::Relaxed) {
            let (item, addition) = (random.next().to_string(), self.history.add(ITEMS, 1));
            while !done.load(Ordering::Relaxed) {
                if self.items.include(&item).await.is_ok() {
                    addition.acknowledge();
                    break;
                }
            }
            sleep(random.millis(1..50)).await;
        }
    }

    async fn increment_again_and_again(self, mut random: Random, done: Arc<AtomicBool>) {
        while !done.load(Ordering::Relaxed) {
            let (name, dimensions) = dimensions(random.index(WINDOWS));
            let amount = weight(random.among(1..4));
            let addition = self.history.add(&name, amount.get().into());
            match self.windows.increment_at(&dimensions, amount, self.at).await {
                Ok(count) => addition.acknowledge_with(count),
                Err(error) if *error.kind() == ErrorKind::Unconfirmed => {}
                Err(_) => addition.reject(),
            }
            sleep(random.millis(1..50)).await;
        }
    }
}

/// Records hits and waits for each to be acknowledged.
pub(super) async fn confirm(
    recorder: Recorder,
    history: History,
    mut random: Random,
    done: Arc<AtomicBool>,
) -> Record {
    let mut record = Record::default();
    while !done.load(Ordering::Relaxed) {
        let (counter, amount) = (random.index(CONFIRMED), weight(random.among(1..4)));
        let addition = history.add(&confirmed(counter), amount.get().into());
        record.write_confirmed(&recorder, counter, amount);
        let hit = recorder.counter(&confirmed(counter)).hit();
        if recorder.confirmed(&[hit], PATIENCE).await {
            addition.acknowledge();
        }
        sleep(random.millis(1..50)).await;
    }
    record
}

fn dimensions(window: usize) -> (String, Dimensions) {
    let name = format!("window {window}");
    (name.clone(), Dimensions::new().text("app", &name))
}
