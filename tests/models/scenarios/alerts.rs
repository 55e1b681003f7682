//! Alerts: watches of two processes evaluate a bucket once, and deliver its message at least once.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};

use counter_alert::{Alert, AlertKind, AlertRule, DeliveryError, Message, Watch};
use counter_core::document::{Document, DocumentStore};
use counter_core::stores::StoreFuture;
use counter_core::{CounterName, Error, ErrorKind, MemoryStore, Precision, Stats, Timestamp};
use models::{Choices, Faults, Task, deeper, explore, interleave};
use tokio::task::yield_now;

use crate::process::process;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The document is not replaced.
    LostRequest,
    /// The document is replaced, but the reply is lost.
    LostReply,
    /// A message does not arrive.
    LostMessage,
    /// A message arrives, but the confirmation is lost.
    LostConfirmation,
    /// A process ends during a pass.
    Crash,
}

const FAULTS: [(Fault, usize); 5] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::LostMessage, 1),
    (Fault::LostConfirmation, 1),
    (Fault::Crash, 2),
];

/// Hits per minute, where more than ten raise an alert, and the expected messages.
const HITS: [u32; 3] = [1, 20, 1];
const EXPECTED: [(usize, AlertKind); 2] = [(1, AlertKind::Raised), (2, AlertKind::Resolved)];

/// Number of minutes that end in a run, including two in the last passes.
const EVALUATED: u64 = HITS.len() as u64 + 2;

#[derive(Debug)]
struct World {
    faults: Faults<Fault>,
    happened: usize,
    arrived: Vec<Alert>,
}

/// The documents of both watches, and the receiver of their messages. A pass stops before each call, so that
/// the other pass can continue.
#[derive(Clone, Debug)]
struct Outside {
    documents: MemoryStore,
    world: Arc<Mutex<World>>,
}

impl Outside {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic")
    }

    fn fault(&self, place: &str, possible: &[Fault]) -> Option<Fault> {
        let world = &mut *self.world();
        let fault = world.faults.choose(place, |fault| possible.contains(&fault))?;
        world.happened += 1;
        Some(fault)
    }

    async fn deliver(self, message: Message) -> Result<(), DeliveryError> {
        yield_now().await;
        let Message::Alert(alert) = message else { panic!("unexpected: {message}") };
        let fault = self.fault("a message", &[Fault::LostMessage, Fault::LostConfirmation]);
        if fault != Some(Fault::LostMessage) {
            self.world().arrived.push(alert);
        }
        if fault.is_some() { Err("lost".into()) } else { Ok(()) }
    }
}

/// The marks of progress are never in the way of an evaluation, so calls for these do not stop.
fn stops(name: &str) -> bool {
    name == "alerts"
}

impl DocumentStore for Outside {
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            if stops(name) {
                yield_now().await;
            }
            self.documents.read(name).await
        })
    }

    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            if stops(name) {
                yield_now().await;
            }
            self.documents.read_newer(name, version).await
        })
    }

    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>> {
        Box::pin(async move {
            let mut fault = None;
            if stops(name) {
                yield_now().await;
                fault = self.fault("a replacement", &[Fault::LostRequest, Fault::LostReply]);
            }
            if fault == Some(Fault::LostRequest) {
                return Err(Error::new(ErrorKind::Unavailable));
            }
            let replaced = self.documents.replace(name, version, content).await;
            if fault == Some(Fault::LostReply) { Err(Error::new(ErrorKind::Unavailable)) } else { replaced }
        })
    }
}

struct Run {
    choices: Choices,
    outside: Outside,
    stats: Stats,
    /// Start of the first minute.
    start: Timestamp,
    watches: [Watch; 2],
    judged: u64,
}

impl Run {
    async fn start(choices: &Choices) -> Self {
        let minute = Precision::try_from(60).expect("not 0");
        // Long ago, so that the clock of the machine does not matter.
        let start = minute.bucket(Timestamp::now()).start.minus(1800);
        let store = MemoryStore::new();
        let mut counters = process(store.clone());
        let recorder = counters.recorder();
        for (at, hits) in (0..).map(|number| start.plus(60 * number)).zip(HITS) {
            recorder.record_at(recorder.counter("hits"), None, at, NonZeroU32::new(hits).expect("not 0"));
        }
        counters.flush().await.expect("memory accepts everything");
        let faults = Faults::new(choices, &FAULTS, deeper(1));
        let world = World { faults, happened: 0, arrived: Vec::new() };
        let outside = Outside { documents: store, world: Arc::new(Mutex::new(world)) };
        let stats = counters.stats();
        let watches = [(); 2].map(|()| watch(&stats, &outside));
        Self { choices: choices.clone(), outside, stats, start, watches, judged: 0 }
    }

    /// Returns the time at which a minute is evaluated.
    fn closed(&self, minute: u64) -> Timestamp {
        self.start.plus(60 * (minute + 1) + Watch::LATENESS.as_secs())
    }

    /// Runs a pass of both watches at these times, which overlap in any way.
    async fn check_both(&mut self, times: [Timestamp; 2]) {
        let outside = self.outside.clone();
        let [first, second] = &mut self.watches;
        let passes: [Task<'_, _>; 2] =
            [Box::pin(first.check_once(times[0])), Box::pin(second.check_once(times[1]))];
        let is_killed = |_| outside.fault("a process", &[Fault::Crash]).is_some();
        let checked = interleave(&self.choices, passes, is_killed).await;
        for (which, checked) in checked.into_iter().enumerate() {
            match checked {
                Some(checked) => self.judged += checked.map_or(0, |checked| checked.judged),
                None => self.watches[which] = watch(&self.stats, &self.outside),
            }
        }
    }

    fn check(&self) {
        let world = self.outside.world();
        let mut by_id = BTreeMap::<_, Vec<_>>::new();
        for alert in &world.arrived {
            by_id.entry(&alert.id).or_default().push((alert.start, alert.kind));
        }
        for (id, arrived) in &by_id {
            assert!(
                arrived.iter().all(|one| *one == arrived[0]),
                "one id for two messages: {id}: {arrived:?}"
            );
        }
        let repeated = world.arrived.len() - by_id.len();
        // A pass confirms all of its messages at once.
        assert!(
            repeated <= world.happened * EXPECTED.len(),
            "{repeated} of {:?} are repeated",
            world.arrived
        );
    }

    /// Runs passes without faults. Then the messages must have arrived, with one id per evaluated bucket.
    async fn finish(mut self) {
        self.outside.world().faults.end();
        // The claim of a process that has ended expires.
        for second in [0, 70, 140] {
            for watch in &mut self.watches {
                let checked = watch.check_once(self.start.plus(195 + second)).await;
                self.judged += checked.expect("no faults are left").judged;
            }
        }
        self.check();
        let world = self.outside.world();
        let ids: BTreeMap<_, _> =
            world.arrived.iter().map(|alert| (&alert.id, (alert.start, alert.kind))).collect();
        let mut arrived: Vec<_> = ids.into_values().collect();
        arrived.sort_by_key(|(start, _)| *start);
        let expected = EXPECTED.map(|(minute, kind)| (self.start.plus(60 * minute as u64).as_unix(), kind));
        assert_eq!(arrived, expected);
        // A pass that fails does not report what it has evaluated.
        let judged = self.judged..=self.judged + world.happened as u64 * HITS.len() as u64;
        assert!(judged.contains(&EVALUATED), "{judged:?} buckets were evaluated");
    }
}

fn watch(stats: &Stats, outside: &Outside) -> Watch {
    let hits = CounterName::new("hits").expect("a name");
    let rule = AlertRule::above("busy", hits, Precision::try_from(60).expect("not 0"), 10);
    let receiver = outside.clone();
    let builder = Watch::builder(stats.clone(), outside.clone()).rule(rule);
    builder.deliver(move |message| receiver.clone().deliver(message)).build().expect("a good rule")
}

/// Two watches evaluate three minutes. The second minute raises an alert, and the third resolves it. The
/// passes of both watches overlap at any call. One of these faults can happen: a replacement of the document
/// is lost, or its reply; a message is lost, or its confirmation; a crash at any call. Each minute is
/// evaluated once, each message arrives at least once and with one id, and it is repeated only if something
/// failed.
#[test]
fn a_bucket_is_evaluated_once_and_each_message_arrives() {
    explore("alerts", async |choices| {
        let mut run = Run::start(choices).await;
        run.check_both([run.closed(0); 2]).await;
        run.check();
        // The second watch starts a bit later, when another minute has ended.
        run.check_both([run.closed(1).plus(50), run.closed(2)]).await;
        run.check();
        run.finish().await;
    });
}
