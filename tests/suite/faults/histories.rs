//! Law 1 in any order of events, with random histories: the store loses replies, fences and recent data, and
//! flushes are dropped midway.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, Fence, StoredFence, Witness};
use counter_core::visits::{Agent, Hits, LabelValues, PageHit};
use counter_core::{Counter, CounterName, Counters, Error, ErrorKind, MemoryStore, Recorder};
use tokio::task::yield_now;
use tokio::time::{Instant, advance};

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::random::Random;

const HISTORIES: u64 = 500;
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Data of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) hits: u64,
    pub(super) by_counter: BTreeMap<CounterName, u64>,
    /// Fence and write time by writer.
    pub(super) fences: HashMap<WriterId, (StoredFence, Instant)>,
    listed: Vec<WriterId>,
    mark: Option<String>,
}

/// A model of a server with only sums and fences.
#[derive(Clone, Debug)]
pub(super) struct Model {
    data: Arc<Mutex<Data>>,
    /// Data of other servers that the address can switch to.
    others: Arc<Mutex<Vec<Data>>>,
    random: Arc<Mutex<Random>>,
    /// True if calls can fail.
    failing: Arc<Mutex<bool>>,
    /// Number of batches with hits to be accepted before the store becomes unavailable.
    left: Arc<Mutex<u64>>,
    /// True if the store returns a witness; otherwise, fences will be removed after a week.
    shows: bool,
    /// Maximum number of samples per batch.
    samples: usize,
    /// Delayed batches that can arrive after the sender has given up; `None` if batches are never delayed.
    late: Option<Arc<Mutex<Vec<Batch>>>>,
}

impl Model {
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        let random = Arc::new(Mutex::new(Random::new(seed)));
        Self {
            data: Arc::default(),
            others: Arc::default(),
            random,
            failing: Arc::default(),
            left: Arc::new(Mutex::new(u64::MAX)),
            shows,
            samples: 1000,
            late: None,
        }
    }

    /// Sets the number of batches with hits to be accepted before the store becomes unavailable.
    pub(super) fn set_batch_limit(&self, batches: u64) {
        *self.left.lock().expect("no panic") = batches;
    }

    /// Limits batches to this number of samples and delays some of them.
    pub(super) fn with_delays(self, samples: usize) -> Self {
        Self { samples, late: Some(Arc::default()), ..self }
    }

    /// Closes the connections and drops delayed batches.
    pub(super) fn close(&self) {
        self.late.iter().for_each(|late| late.lock().expect("no panic").clear());
    }

    fn is_late(&self, batch: &Batch) -> bool {
        let Some(late) = &self.late else { return false };
        // Opening batches are never delayed: a missing fence would not prove anything then.
        let is_late = !batch.fence.is_opening() && self.among(0..5) == 0;
        if is_late {
            late.lock().expect("no panic").push(batch.clone());
        }
        is_late
    }

    /// Delivers a random delayed batch in half of the cases.
    fn deliver(&self) {
        let Some(late) = &self.late else { return };
        let late = &mut *late.lock().expect("no panic");
        if !late.is_empty() && self.among(0..2) == 0 {
            let which = usize::try_from(self.among(0..late.len() as u64)).expect("few");
            self.take(&late.remove(which));
        }
    }

    fn take(&self, batch: &Batch) -> ApplyOutcome {
        self.data(|data| {
            let forgotten = |at: &Instant| !self.shows && at.elapsed() >= WEEK;
            data.fences.retain(|_, (_, at)| !forgotten(at));
            let Fence { writer, .. } = batch.fence;
            let found = data.fences.get(&writer).map_or_else(StoredFence::default, |(found, _)| *found);
            if let Some(outcome) = batch.fence.outcome(found, Vec::new) {
                return outcome;
            }
            if batch.fence.is_opening() {
                assert_eq!(batch.hits(), 0, "no batch with counts creates a fence");
                let now = data.witness(writer);
                if self.shows && batch.witness.as_ref().is_some_and(|witness| !witness.has_same_state(&now)) {
                    return ApplyOutcome::SequenceGap { found: StoredFence::default() };
                }
                data.mark.get_or_insert_with(|| WriterId::random().to_string());
                data.listed.push(writer);
            }
            data.hits += batch.hits();
            for cell in &batch.cells {
                *data.by_counter.entry(cell.counter.clone()).or_default() += cell.count().unwrap_or(0);
            }
            data.fences.insert(writer, (batch.fence.applied_to(found), Instant::now()));
            ApplyOutcome::Applied(Vec::new())
        })
    }

    /// Switches the address to a new server, or to a previous server with the data it had.
    pub(super) fn switch_server(&self) {
        let others = &mut *self.others.lock().expect("no panic");
        let which = usize::try_from(self.among(0..3)).expect("3");
        if which == others.len() {
            others.push(Data::default());
        }
        if let Some(other) = others.get_mut(which) {
            self.data(|data| std::mem::swap(data, other));
        }
    }

    /// Returns the data of each server, starting with the current server.
    pub(super) fn servers(&self) -> Vec<Data> {
        let others = self.others.lock().expect("no panic").clone();
        std::iter::once(self.data(|data| data.clone())).chain(others).collect()
    }

    pub(super) fn data<T>(&self, with: impl FnOnce(&mut Data) -> T) -> T {
        with(&mut self.data.lock().expect("no panic"))
    }

    pub(super) fn among(&self, range: std::ops::Range<u64>) -> u64 {
        self.random.lock().expect("no panic").among(range)
    }

    pub(super) fn fail(&self, failing: bool) {
        *self.failing.lock().expect("no panic") = failing;
    }
}

impl Hooks for Model {
    fn batch_samples(&self) -> usize {
        self.samples
    }

    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            let away = || Err(Error::new(ErrorKind::Unavailable));
            self.deliver();
            if batch.hits() > 0 {
                let left = &mut *self.left.lock().expect("no panic");
                match left.checked_sub(1) {
                    Some(fewer) => *left = fewer,
                    None => return away(),
                }
            }
            let fate = if *self.failing.lock().expect("no panic") { self.among(0..6) } else { 5 };
            match fate {
                0 => return away(),
                1 => return Err(Error::new(ErrorKind::Rejected)),
                2 => yield_now().await,
                3 if self.is_late(batch) => return away(),
                _ => {}
            }
            let verdict = self.take(batch);
            match fate {
                3 => return away(),
                4 => yield_now().await,
                _ => {}
            }
            Ok(verdict)
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        self.shows.then(|| self.data(|data| data.witness(writer)))
    }
}

impl Data {
    fn witness(&self, writer: WriterId) -> Witness {
        let (data, writers) = (self.mark.clone(), self.mark.clone());
        Witness { data, writers, listed: self.listed.contains(&writer), evicts: false }
    }
}

struct History {
    model: Model,
    counters: Counters,
    recorder: Recorder,
    snapshots: Vec<Data>,
    failed_over: bool,
    events: Vec<String>,
}

impl History {
    fn start(seed: u64, shows: bool) -> Self {
        let model = Model::new(seed, shows);
        let counters =
            Counters::builder(InterceptedStore::new(model.clone())).build().expect("the defaults are fine");
        let recorder = counters.recorder();
        let snapshots = vec![Data::default()];
        Self {
            model,
            counters,
            recorder,
            snapshots,
            failed_over: false,
            events: vec![format!("seed {seed}")],
        }
    }

    async fn step(&mut self) {
        let what = match self.model.among(0..14) {
            0..4 => {
                let hits = 1 + self.model.among(0..5);
                let page = self.recorder.counter(["a", "b", "c"][usize::try_from(hits % 3).expect("3")]);
                let values = self.recorder.label_values("site").expect("a name").by_page();
                (0..hits).for_each(|_| self.view(page, &values));
                format!("{hits} views")
            }
            4..7 => {
                self.model.fail(true);
                let sent = self.counters.flush().await.is_ok();
                self.model.fail(false);
                format!("a flush, {sent}")
            }
            7 => {
                self.model.fail(true);
                let polls = 1 + self.model.among(0..3);
                let mut flush = pin!(self.counters.flush());
                let mut context = Context::from_waker(Waker::noop());
                let _ = (0..polls).any(|_| flush.as_mut().poll(&mut context).is_ready());
                self.model.fail(false);
                "a flush that is dropped".to_owned()
            }
            8 => {
                advance(Duration::from_secs(1 + self.model.among(0..50))).await;
                "some seconds".to_owned()
            }
            9 => {
                advance(Duration::from_secs(61)).await;
                "a minute".to_owned()
            }
            10 => self.fail_over().await,
            11 => {
                // Without a witness, a loss can't be detected after a week, so it must be detected now.
                if !self.model.shows {
                    self.detect_losses().await;
                }
                advance(WEEK + Duration::from_secs(5)).await;
                if !self.model.shows {
                    self.model.data(|data| data.fences.clear());
                }
                // Failovers only go back to states after this point.
                self.snapshots.clear();
                "a week".to_owned()
            }
            // Without a witness, lost fences can't be distinguished from lost data.
            _ if self.model.shows => {
                // The same applies if fences are lost between a failover and the next batch.
                if std::mem::take(&mut self.failed_over) {
                    self.detect_losses().await;
                }
                self.model.data(|data| data.fences.clear());
                self.snapshots.clear();
                "all fences are lost".to_owned()
            }
            _ => "nothing".to_owned(),
        };
        self.events.push(what);
        let data = self.model.data(|data| data.clone());
        // We must not fail over to a state without the fence, because this would be two faults within a
        // minute.
        if !data.fences.is_empty() || data.listed.is_empty() {
            self.snapshots.push(data);
        }
    }

    /// Records a request with a page, a value and a pair.
    fn view(&self, page: Counter, values: &LabelValues) {
        let noted = values.note(Some("a.example"), NonZeroU32::MIN);
        let view = PageHit::new(self.recorder.counter("hits").hit(), Agent::Human);
        self.recorder.page_hit(PageHit { page: Some(page), labels: &[noted], ..view });
    }

    /// Sends a batch so that the process detects lost data.
    async fn detect_losses(&mut self) {
        self.recorder.record(self.recorder.counter("w"), None);
        self.counters.flush().await.expect("no failures");
    }

    /// Fails over to a recent state in which every batch was acknowledged.
    async fn fail_over(&mut self) -> String {
        if self.counters.flush().await.is_err() {
            return "no failover".to_owned();
        }
        let back = usize::try_from(self.model.among(0..4)).expect("4");
        let Some(earlier) = self.snapshots.len().checked_sub(back + 1) else {
            return "no failover".to_owned();
        };
        self.snapshots.truncate(earlier + 1);
        let earlier = self.snapshots[earlier].clone();
        self.model.data(|data| *data = earlier);
        self.failed_over = true;
        format!("a failover, {back} back")
    }

    /// Checks that every hit is stored once unless it is reported as lost. Hits in doubt may be stored.
    async fn check(mut self) -> Hits {
        self.recorder.record(self.recorder.counter("z"), None);
        self.counters.flush().await.expect("no failures");
        let (hits, stored) = (self.recorder.ledger().hits, self.model.data(|data| data.hits));
        let events = self.events.join("; ");
        assert!(hits.balance() && hits.pending == 0, "{hits:?}: {events}");
        let surely = hits.recorded - hits.lost_by_server - hits.dropped.in_doubt;
        let perhaps = surely + hits.dropped.in_doubt;
        assert!((surely..=perhaps).contains(&stored), "{stored} stored, {hits:?}: {events}");
        hits
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_order_of_events_no_hit_is_doubled_or_lost_unreported() {
    let (mut lost, mut in_doubt) = (0, 0);
    for seed in Random::histories("histories of a writer", HISTORIES) {
        for shows in [true, false] {
            let mut history = History::start(seed, shows);
            for _ in 0..40 {
                history.step().await;
            }
            let hits = history.check().await;
            lost += hits.lost_by_server;
            in_doubt += hits.dropped.in_doubt;
        }
    }
    assert!(lost > 0 && in_doubt > 0, "too few histories with losses: {lost} {in_doubt}");
}
