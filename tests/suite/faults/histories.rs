//! Law 1 in any order of events: a store that loses replies, fences and its newest data, and a process whose
//! flushes are dropped half-way, over random histories.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::stores::Answer;
use counter_core::stores::WriterId;
use counter_core::visits::{ApplyOutcome, Batch, Fence, Hits, StoredFence, Witness};
use counter_core::{CounterName, Counters, Error, ErrorKind, MemoryStore, Recorder};
use tokio::task::yield_now;
use tokio::time::{Instant, advance};

use crate::random::Random;
use crate::through::{Hand, Through};

const HISTORIES: u64 = 1500;
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// What a server has.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) hits: u64,
    pub(super) by_counter: BTreeMap<CounterName, u64>,
    /// By writer: the fence, and when it was set.
    pub(super) fences: HashMap<WriterId, (StoredFence, Instant)>,
    listed: Vec<WriterId>,
    mark: Option<String>,
}

/// A server of which nothing but sums and fences matter.
#[derive(Clone, Debug)]
pub(super) struct Model {
    data: Arc<Mutex<Data>>,
    /// What other servers have, to which the address may lead.
    others: Arc<Mutex<Vec<Data>>>,
    random: Arc<Mutex<Random>>,
    /// Whether calls may fail, and whether all do.
    failing: Arc<Mutex<bool>>,
    /// The number of batches with hits that are taken before the store is away.
    left: Arc<Mutex<u64>>,
    /// Whether it shows what it has lost; if not, it forgets fences after a week.
    shows: bool,
    /// The samples that a batch may change.
    samples: usize,
    /// Batches that are still on their way, whatever became of who sent them; `None` where none ever is.
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

    /// Lets the store take so many batches with hits before it is away.
    pub(super) fn takes(&self, batches: u64) {
        *self.left.lock().expect("no panic") = batches;
    }

    /// Makes it take batches of so many samples, and deliver some of them late.
    pub(super) fn slow(self, samples: usize) -> Self {
        Self { samples, late: Some(Arc::default()), ..self }
    }

    /// Closes all connections, with what is on its way.
    pub(super) fn close(&self) {
        self.late.iter().for_each(|late| late.lock().expect("no panic").clear());
    }

    fn is_late(&self, batch: &Batch) -> bool {
        let Some(late) = &self.late else { return false };
        // A fence is never made late: that it is missing would tell nothing.
        let is_late = !batch.fence.is_opening() && self.among(0..5) == 0;
        if is_late {
            late.lock().expect("no panic").push(batch.clone());
        }
        is_late
    }

    /// Delivers one of the batches that are late, sometimes.
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
                if self.shows && batch.witness.as_ref().is_some_and(|witness| !witness.shows_same(&now)) {
                    return ApplyOutcome::SequenceGap { found: StoredFence::default() };
                }
                data.mark.get_or_insert_with(|| WriterId::random().to_string());
                data.listed.push(writer);
            }
            data.hits += batch.hits();
            for cell in &batch.cells {
                *data.by_counter.entry(cell.counter.clone()).or_default() += cell.count;
            }
            data.fences.insert(writer, (batch.fence.applied_to(found), Instant::now()));
            ApplyOutcome::Applied(Vec::new())
        })
    }

    /// Leads the address to a server that is new, or that was there before, with what it has.
    pub(super) fn switch(&self) {
        let others = &mut *self.others.lock().expect("no panic");
        let which = usize::try_from(self.among(0..3)).expect("3");
        if which == others.len() {
            others.push(Data::default());
        }
        if let Some(other) = others.get_mut(which) {
            self.data(|data| std::mem::swap(data, other));
        }
    }

    /// Returns what all servers have, beginning with the one that the address leads to.
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

impl Hand for Model {
    fn batch_samples(&self) -> usize {
        self.samples
    }

    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
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
                1 => return Err(Error::new(ErrorKind::Refused)),
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
    said: Vec<String>,
}

impl History {
    fn begin(seed: u64, shows: bool) -> Self {
        let model = Model::new(seed, shows);
        let counters = Counters::builder(Through::new(model.clone())).build().expect("the defaults are fine");
        let recorder = counters.recorder();
        let snapshots = vec![Data::default()];
        Self { model, counters, recorder, snapshots, failed_over: false, said: Vec::new() }
    }

    async fn step(&mut self) {
        let what = match self.model.among(0..14) {
            0..4 => {
                let hits = 1 + self.model.among(0..5);
                let counter = self.recorder.counter(["a", "b", "c"][usize::try_from(hits % 3).expect("3")]);
                (0..hits).for_each(|_| self.recorder.record(counter, None));
                format!("{hits} hits")
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
                // A store that shows nothing cannot tell after a week what it lost before it.
                if !self.model.shows {
                    self.notice().await;
                }
                advance(WEEK + Duration::from_secs(5)).await;
                if !self.model.shows {
                    self.model.data(|data| data.fences.clear());
                }
                // Nothing that is older is gone back to, nor is it here.
                self.snapshots.clear();
                "a week".to_owned()
            }
            // Of a store that shows nothing, this cannot be told from lost data.
            _ if self.model.shows => {
                // Nor can it be told where fences are lost between a failover and the next batch.
                if std::mem::take(&mut self.failed_over) {
                    self.notice().await;
                }
                self.model.data(|data| data.fences.clear());
                self.snapshots.clear();
                "all fences are lost".to_owned()
            }
            _ => "nothing".to_owned(),
        };
        self.said.push(what);
        let data = self.model.data(|data| data.clone());
        // To a time at which a fence was missing nothing goes back: that is one fault too many within a minute.
        if !data.fences.is_empty() || data.listed.is_empty() {
            self.snapshots.push(data);
        }
    }

    /// Sends a batch, by which the process learns what the store has lost.
    async fn notice(&mut self) {
        self.recorder.record(self.recorder.counter("w"), None);
        self.counters.flush().await.expect("nothing fails");
    }

    /// Goes back to one of the last states, which had replied to everything.
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

    /// All hits but those that are said to be lost are in the store, once; what is in doubt may be.
    async fn check(mut self) -> Hits {
        self.recorder.record(self.recorder.counter("z"), None);
        self.counters.flush().await.expect("nothing fails any more");
        let (hits, stored) = (self.recorder.ledger().hits, self.model.data(|data| data.hits));
        let said = self.said.join("; ");
        assert!(hits.balance() && hits.pending == 0, "{hits:?}: {said}");
        let surely = hits.recorded - hits.lost_by_server - hits.dropped.in_doubt;
        let perhaps = surely + hits.dropped.in_doubt;
        assert!((surely..=perhaps).contains(&stored), "{stored} stored, {hits:?}: {said}");
        hits
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_order_of_events_nothing_is_doubled_and_nothing_is_lost_without_being_told() {
    let (mut lost, mut in_doubt) = (0, 0);
    for seed in 0..HISTORIES {
        for shows in [true, false] {
            let mut history = History::begin(seed, shows);
            for _ in 0..40 {
                history.step().await;
            }
            let hits = history.check().await;
            lost += hits.lost_by_server;
            in_doubt += hits.dropped.in_doubt;
        }
    }
    assert!(lost > 0 && in_doubt > 0, "these histories show less than they should: {lost} {in_doubt}");
}
