//! The history of the demo site.

use std::iter::repeat_n;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use counter_alert::goal::{Goal, Goals};
use counter_alert::note::{Note, Notes};
use counter_core::source::{Commit, Source};
use counter_core::time::Grid;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Hit, Measured};
use counter_core::{AnyStore, Counters, Error, Timestamp};
use counter_layer::AccessCounterLayer;
use counter_log::record::{Record, RequestRecord};
use counter_log::{Decision, Header, LogCounter};
use tokio::task::yield_now;

use super::dice::Dice;
use super::people::{Crowd, Visitor};
use super::traffic::{Client, KINDS, Traffic};

/// A history of ninety days. It is recorded once per store, even if the program is killed in between, or if
/// several instances start at the same time.
///
/// The history is a [source](counter_core::source) of requests that all instances generate in the same way:
/// they only depend on the time at which the history ends, which is stored as a note.
#[derive(Debug)]
pub struct History {
    counters: Counters,
    layer: AccessCounterLayer,
    notes: Notes,
    goals: Goals,
    utc_offset: i32,
}

/// Name of the source.
const SOURCE: &str = "demo history";

/// Position of the source when the history is complete, beyond the number of requests.
const COMPLETE: u64 = 1 << 40;

/// Id of the note.
const NOTE_ID: &str = "demo-history";

/// Text of the note.
const NOTE: &str = "Demo data until here, simulated visitors from here";

/// What members do.
const GOALS: [(&str, &str); 2] =
    [("/posts/{id}/like", "Likes a post"), ("/members/{id}/follow", "Follows a member")];

/// Maximum number of records for the requests of one kind in a slot. These differ in their labels and times. It takes
/// most of the time to classify the records, so there should be few.
const MAX_PARTS: u32 = 3;

/// Number of requests for which another record is needed.
const REQUESTS_PER_PART: u32 = 100;

/// Size of a response in bytes.
const SIZE: u64 = 700;

/// Key that identifies visitors. It does not need to be secret, because the people do not exist.
const KEY: VisitorKey = VisitorKey::new(*b"visitors of demo");

impl History {
    /// Creates a history that is recorded with these counters of the store, as if the layer had counted the requests. The
    /// counters should not be used for anything else. `utc_offset` is the offset of the site in seconds.
    #[must_use]
    pub fn new(counters: Counters, layer: AccessCounterLayer, store: &AnyStore, utc_offset: i32) -> Self {
        // There is no router that could match the paths.
        let layer = layer.matched_path(|head| {
            KINDS.iter().find(|kind| kind.path.split('?').next() == Some(head.uri.path()))?.route
        });
        let (notes, goals) = (Notes::new(store.clone()), Goals::new(store.clone()));
        Self { counters, layer, notes, goals, utc_offset }
    }

    pub(super) const fn utc_offset(&self) -> i32 {
        self.utc_offset
    }

    /// Records the history, unless the store already contains it or has other hits.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is unavailable. This can be called again.
    pub async fn record(&self) -> Result<(), Error> {
        let name = SOURCE.parse().expect("a name");
        let mut source = self.counters.sources().open(name).await?;
        if source.position() == COMPLETE {
            return Ok(());
        }
        let Some(end) = self.end().await? else { return Ok(()) };
        loop {
            let mut replay = Replay::new(&mut source, &self.layer, Traffic::new(end, self.utc_offset));
            // If another instance is faster, we continue at the position of that instance.
            if replay.run(self.counters.stats().grid(), end).await? == Commit::Moved {
                continue;
            }
            source.advance_to(COMPLETE);
            if source.close().await? == Commit::Done {
                break;
            }
        }
        tracing::info!("recorded a demo history of ninety days");
        Ok(())
    }

    /// Returns the end of the history, after adding a note to the charts and marking goals. Returns `None` if the store has
    /// other hits.
    async fn end(&self) -> Result<Option<Timestamp>, Error> {
        let notes = self.notes.list(..).await?;
        if let Some(note) = notes.iter().find(|note| note.id() == NOTE_ID) {
            return Ok(Some(note.at()));
        }
        let hits = "hits".parse().expect("a name");
        if self.counters.stats().lifetimes(&[hits]).await? != [0] {
            return Ok(None);
        }
        for (counter, name) in GOALS {
            let goal = Goal::new(counter.parse().expect("a name"), name).expect("a goal");
            self.goals.mark(&goal).await?;
        }
        let note = Note::new(Timestamp::now(), NOTE).and_then(|note| note.with_id(NOTE_ID)).expect("a note");
        Ok(Some(self.notes.add(&note).await?.note.at()))
    }
}

/// The labels of the program that count people.
const WITH_PEOPLE: [&str; 4] = ["source", "address", "campaign", "country"];

/// Sends all requests to the source.
struct Replay<'a> {
    source: &'a mut Source,
    counter: LogCounter,
    traffic: Traffic,
    crowd: Crowd,
    request: RequestRecord<'static>,
    /// Position of the next request.
    position: u64,
    has_distributions: bool,
}

impl<'a> Replay<'a> {
    fn new(source: &'a mut Source, layer: &AccessCounterLayer, traffic: Traffic) -> Self {
        let counter = LogCounter::new(layer);
        let has_distributions = counter.recorder().has_distributions();
        let Ok(Record::Request(request)) = serde_json::from_str(r#"{"path":"/","at":0}"#) else {
            unreachable!("the record has a path")
        };
        let crowd = Crowd::new(Dice::new(0));
        Self { source, counter, traffic, crowd, request, position: 0, has_distributions }
    }

    /// Sends the requests until `end`. The latest are sent first, so that they are shown early.
    async fn run(&mut self, grid: &Grid, end: Timestamp) -> Result<Commit, Error> {
        let start = end.minus(Traffic::DAYS * 86_400);
        let mut until = end;
        while until > start
            && let Some(from) = slot_start(grid, until, end)
        {
            for kind in 0..KINDS.len() {
                if self.add_slot(kind, &(from..until)) && self.source.commit().await? == Commit::Moved {
                    return Ok(Commit::Moved);
                }
            }
            until = from;
            // A store in memory never waits.
            yield_now().await;
        }
        Ok(Commit::Done)
    }

    /// Adds the requests of a kind. Returns `true` if there is enough data to commit.
    fn add_slot(&mut self, kind: usize, slot: &Range<Timestamp>) -> bool {
        let popularity = self.traffic.popularity(&KINDS[kind], slot.start);
        let requests = self.crowd.dice.count(self.traffic.expected(&KINDS[kind], slot));
        let parts = requests.div_ceil(REQUESTS_PER_PART).min(MAX_PARTS);
        let mut is_full = false;
        for part in 0..parts {
            let count = share(requests, parts, part);
            let visitors = self.crowd.visitors(kind, count, popularity);
            // All random numbers are needed, even if the part is already counted.
            let slowness = (0.4 * self.crowd.dice.normal()).exp();
            let position = self.position;
            self.position += 1;
            if position >= self.source.position() {
                is_full |= self.add(position, kind, slot.start, &visitors, count, slowness);
            }
        }
        is_full
    }

    /// Adds `count` similar requests as one record.
    fn add(
        &mut self,
        position: u64,
        kind: usize,
        at: Timestamp,
        visitors: &[Visitor],
        count: u32,
        slowness: f64,
    ) -> bool {
        let (kind, first) = (&KINDS[kind], visitors[0]);
        let Self { source, counter, request, traffic, .. } = self;
        let seconds = kind.seconds * slowness;
        request.at = at;
        request.path = kind.path.into();
        request.method = Some(if kind.client == Client::Member { "POST" } else { "GET" }.into());
        request.status = Some(kind.status);
        let referrer = Some(first.referrer).filter(|url| !url.is_empty());
        request.user_agent = Header::Sent(first.agent().into());
        request.referrer = referrer.map_or(Header::NotSent, |url| Header::Sent(url.into()));
        request.language = Header::Sent(first.language().into());
        request.time = Some(Duration::from_secs_f64(seconds));
        request.body = Some(Duration::from_secs_f64(seconds * 1.1));
        request.size = Some(SIZE);
        let recorder = counter.recorder().clone();
        let Decision::Counted { hits, measured, .. } = request.decide(counter, KEY) else { return false };

        let day = traffic.day(at).to_le_bytes();
        let visitor_count = u32::try_from(visitors.len()).unwrap_or(1);
        // Facets and labels follow the hits of the site and the page, and do not have visitors, apart from labels with people.
        let (with_visitors, others) = hits.split_at(measured.hits.len());
        let has_people = |hit: &&Hit| {
            let name = recorder.name(hit.counter());
            name.is_some_and(|name| name.label().is_some_and(|(label, _)| WITH_PEOPLE.contains(&label)))
        };
        let (people, others): (Vec<&Hit>, Vec<&Hit>) = others.iter().partition(has_people);
        let mut all: Vec<_> = others.into_iter().map(|hit| weighted(*hit, count)).collect();
        for (index, visitor) in (0..).zip(visitors) {
            let is_person = kind.client != Client::Bot;
            let id = is_person.then(|| KEY.visitor(&[&visitor.number.to_le_bytes(), &day]));
            let requests = share(count, visitor_count, index);
            let hits = with_visitors.iter().chain(people.iter().copied());
            all.extend(hits.map(|hit| weighted(*hit, requests).visitor(id)));
        }
        // Distributions ignore weights, so we repeat the hits. Hits on the same counter in a row are added together.
        let repetitions = if self.has_distributions { count as usize } else { 0 };
        let hits: Vec<_> = measured.hits.iter().flat_map(|hit| repeat_n(*hit, repetitions)).collect();
        source.record_measured(position..position + 1, at, &all, Measured { hits: &hits, ..measured })
    }
}

fn weighted(hit: Hit, weight: u32) -> Hit {
    hit.weight(NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN))
}

/// Returns the size of a part if `total` is distributed evenly.
const fn share(total: u32, parts: u32, part: u32) -> u32 {
    total / parts + (part < total % parts) as u32
}

/// Returns the start of the slot that ends at `until`: all requests in a slot are in the same buckets, except
/// for buckets that are past retention at `now`. Returns `None` if all are.
fn slot_start(grid: &Grid, until: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let last = until.minus(1);
    let retained = grid.counts.iter().filter(|retention| last >= retention.oldest(now));
    retained.map(|retention| retention.precision.bucket(last).start).max()
}

#[cfg(test)]
mod tests {
    use counter_core::MemoryStore;

    use super::*;

    /// Returns a history in this store that ends at a fixed time.
    async fn history(store: &MemoryStore) -> History {
        let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
        let layer = AccessCounterLayer::new(counters.recorder());
        let history = History::new(counters, layer, &store.clone().into(), 0);
        let today = Timestamp::now().as_unix() / 86_400;
        let note =
            Note::new(Timestamp::from_unix(today * 86_400), NOTE).and_then(|note| note.with_id(NOTE_ID));
        history.notes.add(&note.expect("a note")).await.expect("memory does not fail");
        history
    }

    async fn hits(history: &History) -> u64 {
        let hits = "hits".parse().expect("a name");
        history.counters.stats().lifetimes(&[hits]).await.expect("memory does not fail")[0]
    }

    #[tokio::test]
    async fn a_history_is_recorded_once_by_several_instances_even_if_one_is_aborted() {
        let (one, several) = (MemoryStore::new(), MemoryStore::new());
        let alone = history(&one).await;
        alone.record().await.expect("memory does not fail");
        let expected = hits(&alone).await;
        assert!(expected > 1_000_000, "{expected}");

        let aborted = history(&several).await;
        let some_are_recorded = async {
            while hits(&aborted).await == 0 {
                yield_now().await;
            }
        };
        tokio::select! {
            _ = aborted.record() => unreachable!("it takes many batches"),
            () = some_are_recorded => {}
        }
        assert!(hits(&aborted).await < expected);
        let (first, second) = (history(&several).await, history(&several).await);
        let results = tokio::join!(first.record(), second.record());
        assert!(results.0.is_ok() && results.1.is_ok());
        assert_eq!(hits(&first).await, expected);
        aborted.record().await.expect("memory does not fail");
        assert_eq!(hits(&first).await, expected);
    }

    #[test]
    fn slots_grow_with_age_and_do_not_cross_midnight() {
        let (grid, now) = (Grid::default(), Timestamp::from_unix(20_000 * 86_400 + 45_000));
        let width = |age| {
            let until = now.minus(age);
            slot_start(&grid, until, now).map(|start| until.as_unix() - start.as_unix())
        };
        let ages = [0, 300, 3600, 30_000, 88_200, 45_000 + 40 * 86_400];
        assert_eq!(ages.map(width), [1, 5, 60, 300, 3600, 86_400].map(Some));
        assert_eq!(width(130 * 86_400), None);
        let mut until = now;
        while let Some(start) = slot_start(&grid, until, now) {
            assert_eq!(start.as_unix() / 86_400, (until.as_unix() - 1) / 86_400);
            until = start;
        }
    }
}
