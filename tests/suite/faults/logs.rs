//! Law 1 for sources in any order of events, with random histories: shards lose replies, apply batches late
//! and roll back to older states, and readers are dropped midway.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::source::{Commit, Source, SourceName};
use counter_core::stores::{Shard, Shards, StoreFuture};
use counter_core::visits::Skip;
use counter_core::visits::store::{ApplyOutcome, Batch, Read, Write};
use counter_core::{Counter, CounterName, Counters, Error, ErrorKind, MemoryStore, Timestamp};
use tokio::task::yield_now;
use tokio::time::advance;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::random::Random;
use crate::support::name;

const HISTORIES: u64 = 150;
const STEPS: u64 = 60;
const RECORDS: u64 = 40;
/// Positions have gaps.
const WIDTH: u64 = 3;
const READERS: usize = 3;
/// Records with a multiple of this number are not hits.
const NO_HIT_INTERVAL: u64 = 7;

/// The server of each shard. After a rollback, the newer batches are lost.
#[derive(Debug)]
struct Data {
    random: Random,
    failing: bool,
    shards: BTreeMap<Shard, (MemoryStore, Vec<Batch>)>,
    /// Delayed batches, for which the reply is lost.
    late: Vec<Batch>,
    moved: u64,
}

impl Data {
    async fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let (store, applied) = self.shards.get_mut(&batch.shard).expect("a shard");
        let outcome = MemoryStore::apply(store, batch).await.expect("memory accepts everything");
        match outcome {
            ApplyOutcome::Applied(_) => applied.push(batch.clone()),
            _ if batch.fence.after <= Source::MAX_POSITION => self.moved += 1,
            _ => {}
        }
        outcome
    }
}

/// Connection of a reader to the servers.
#[derive(Clone, Debug)]
struct Connection {
    data: Arc<tokio::sync::Mutex<Data>>,
    /// Batches without a reply, which the reader must resend unchanged.
    unanswered: Arc<Mutex<HashMap<Shard, Batch>>>,
    shards: Shards,
}

impl Connection {
    fn unanswered<T>(&self, with: impl FnOnce(&mut HashMap<Shard, Batch>) -> T) -> T {
        with(&mut self.unanswered.lock().expect("no panic"))
    }
}

impl Hooks for Connection {
    fn shards(&self) -> Shards {
        self.shards
    }

    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            let is_question = batch.fence.after > Source::MAX_POSITION;
            if !is_question {
                let before = self.unanswered(|all| all.insert(batch.shard, batch.clone()));
                assert!(before.is_none_or(|before| before == *batch), "a batch has changed");
            }
            let away = || Err(Error::new(ErrorKind::Unavailable));
            let fate = {
                let data = &mut *self.data.lock().await;
                let fate = if data.failing { data.random.among(0..9) } else { 8 };
                if fate == 1 {
                    data.late.push(batch.clone());
                }
                fate
            };
            match fate {
                0 | 1 => return away(),
                2 => yield_now().await,
                _ => {}
            }
            let outcome = self.data.lock().await.apply(batch).await;
            match fate {
                3 => return away(),
                4 => yield_now().await,
                _ => {}
            }
            if !is_question {
                self.unanswered(|all| all.remove(&batch.shard));
            }
            Ok(outcome)
        })
    }
}

struct Reader {
    connection: Connection,
    counters: Counters,
    source: Source,
}

impl Reader {
    async fn start(connection: Connection) -> Self {
        let counters = Counters::builder(InterceptedStore::new(connection.clone()))
            .build()
            .expect("the defaults are fine");
        let source = Self::open(&counters).await.expect("no failure yet");
        Self { connection, counters, source }
    }

    async fn open(counters: &Counters) -> Result<Source, Error> {
        counters.sources().open(SourceName::new("log").expect("a name")).await
    }

    async fn reopen(&mut self) {
        if let Ok(source) = Self::open(&self.counters).await {
            self.source = source;
            self.connection.unanswered(HashMap::clear);
        }
    }

    fn next(&self) -> u64 {
        self.source.position().div_ceil(WIDTH)
    }

    fn is_at_the_end(&self) -> bool {
        self.next() >= RECORDS
    }

    /// Passes a record to the source, even if it was already read.
    fn read(&mut self, number: u64, started: Timestamp) {
        let range = number * WIDTH..number * WIDTH + 2;
        if number.is_multiple_of(NO_HIT_INTERVAL) {
            return self.source.skip(range, Skip::Excluded);
        }
        let (recorder, at) = (self.counters.recorder(), started.minus(number % 90));
        let [hits, page, record, value, _] = counters_of(number);
        let values = recorder.label_values("site").expect("a name").by_page();
        let noted = values.note_at(value.label().map(|(_, value)| value), at, NonZeroU32::MIN);
        let [hits, page, record] = [hits, page, record].map(|counter| recorder.counter(&counter));
        let pair = values.pair(noted, page, at, NonZeroU32::MIN).expect("there are enough places");
        let hits = [hits, page, record, values.counter(noted), pair].map(Counter::hit);
        self.source.record(range, at, &hits);
    }

    fn check(&self, events: &[String]) {
        for status in self.counters.sources().statuses() {
            let ledger = status.ledger;
            assert!(ledger.records.balance() && ledger.hits.balance(), "{ledger:?}: {events:?}");
        }
    }
}

/// Returns the counters of a record, including a counter just for this record, a label value and a pair.
fn counters_of(number: u64) -> [CounterName; 5] {
    let (page, value) = (number % 5, number % 3);
    let pair = format!("label:site@:/{page} = {value}.example");
    let all = [
        "hits",
        &format!("/{page}"),
        &format!("record {number}"),
        &format!("label:site:{value}.example"),
        &pair,
    ];
    all.map(name)
}

struct History {
    data: Arc<tokio::sync::Mutex<Data>>,
    readers: Vec<Reader>,
    started: Timestamp,
    events: Vec<String>,
}

impl History {
    async fn start(seed: u64) -> Self {
        let shards =
            Shards::try_from([1, 2, 4][usize::try_from(seed % 3).expect("3")]).expect("a good number");
        let data = Arc::new(tokio::sync::Mutex::new(Data {
            random: Random::new(seed),
            failing: false,
            shards: shards.iter().map(|shard| (shard, (MemoryStore::new(), Vec::new()))).collect(),
            late: Vec::new(),
            moved: 0,
        }));
        let mut readers = Vec::new();
        for _ in 0..READERS {
            readers.push(
                Reader::start(Connection { data: data.clone(), unanswered: Arc::default(), shards }).await,
            );
        }
        Self { data, readers, started: Timestamp::now(), events: vec![format!("seed {seed}")] }
    }

    async fn among(&self, range: std::ops::Range<u64>) -> u64 {
        self.data.lock().await.random.among(range)
    }

    async fn step(&mut self) {
        let (what, which) = (self.among(0..16).await, self.among(0..READERS as u64).await);
        let some = self.among(1..12).await;
        let reader = &mut self.readers[usize::try_from(which).expect("few")];
        self.data.lock().await.failing = true;
        let what = match what {
            0..5 => {
                for _ in 0..some.min(RECORDS.saturating_sub(reader.next())) {
                    reader.read(reader.next(), self.started);
                }
                format!("reads to {}", reader.source.position())
            }
            5 => {
                reader.read(some.min(reader.next().saturating_sub(1)), self.started);
                "reads a record again".to_owned()
            }
            6..9 => format!("commits: {:?}", reader.source.commit().await.map_err(|error| error.to_string())),
            9 => format!("closes: {:?}", reader.source.close().await.map_err(|error| error.to_string())),
            10 => {
                let mut commit = pin!(reader.source.commit());
                let mut context = Context::from_waker(Waker::noop());
                let _ = (0..some % 3 + 1).any(|_| commit.as_mut().poll(&mut context).is_ready());
                "drops a commit".to_owned()
            }
            11 => {
                reader.reopen().await;
                "opens".to_owned()
            }
            12 => {
                advance(Duration::from_secs(some)).await;
                "waits".to_owned()
            }
            13 | 14 => self.deliver_late().await,
            _ => self.roll_back(some % 4).await,
        };
        self.data.lock().await.failing = false;
        self.events.push(format!("{which} {what}"));
        self.readers.iter().for_each(|reader| reader.check(&self.events));
    }

    /// Delivers a batch that the reader has already given up on.
    async fn deliver_late(&self) -> String {
        let data = &mut *self.data.lock().await;
        if let Some(batch) = data.late.pop() {
            data.apply(&batch).await;
        }
        "a batch arrives late".to_owned()
    }

    /// Rolls a shard back by this number of batches.
    async fn roll_back(&self, batches: u64) -> String {
        let data = &mut *self.data.lock().await;
        let which = data.random.among(0..data.shards.len() as u64);
        let (store, applied) =
            data.shards.values_mut().nth(usize::try_from(which).expect("few")).expect("one");
        applied.truncate(applied.len().saturating_sub(usize::try_from(batches).expect("few")));
        *store = MemoryStore::new();
        for batch in applied {
            MemoryStore::apply(store, batch).await.expect("memory accepts everything");
        }
        format!("a shard loses {batches} batches")
    }

    /// Checks that each log record was counted once, either by these readers or by a later reader.
    async fn check(mut self) -> u64 {
        let connection = Connection { unanswered: Arc::default(), ..self.readers[0].connection.clone() };
        self.readers.push(Reader::start(connection).await);
        for reader in &mut self.readers {
            while !reader.is_at_the_end() || reader.source.close().await.expect("no failures") != Commit::Done
            {
                if !reader.is_at_the_end() {
                    reader.read(reader.next(), self.started);
                }
            }
            assert_eq!(reader.source.ledger().hits.pending, 0);
            reader.check(&self.events);
        }
        while !self.data.lock().await.late.is_empty() {
            self.deliver_late().await;
        }
        let data = self.data.lock().await;
        let mut expected = BTreeMap::new();
        let all = (0..RECORDS).filter(|number| !number.is_multiple_of(NO_HIT_INTERVAL)).flat_map(counters_of);
        all.for_each(|counter| *expected.entry(counter).or_insert(0) += 1);
        let names: Vec<_> = expected.keys().cloned().collect();
        let mut totals = vec![0; names.len()];
        for (store, _) in data.shards.values() {
            let some = store.lifetimes(&names).await.expect("readable");
            totals.iter_mut().zip(some).for_each(|(total, count)| *total += count.expect("readable"));
        }
        let totals: BTreeMap<_, _> = names.into_iter().zip(totals).collect();
        assert_eq!(totals, expected, "{:?}", self.events);
        data.moved
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_order_of_events_each_log_record_counts_once() {
    let (mut moved, seeds) = (0, Random::histories("histories of readers", HISTORIES));
    let histories = seeds.end - seeds.start;
    for seed in seeds {
        let mut history = History::start(seed).await;
        for _ in 0..STEPS {
            history.step().await;
        }
        moved += history.check().await;
    }
    assert!(moved > histories, "too few histories with moved chunks: {moved}");
}
