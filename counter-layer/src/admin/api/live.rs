//! Series while they grow, as server-sent events.
//!
//! Nothing runs for a listener but the body of its answer, which asks for a reading when it is polled and a
//! second has gone by. So no store is read for clients that read slowly or have left, and it is read once
//! for all that follow the same counters.

mod feed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use counter_core::time::{Grid, Retention};
use counter_core::visits::Unreadable;
use counter_core::{Stats, Timestamp};
use futures_util::future::Either;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use http::header::HeaderName;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use feed::{Feed, Feeds, READ};

use super::mark::{Counts, Mark};
use super::parameter::{Asked, Counters, HasGrid, KeptPrecision, LastEventId};
use super::response::{Sample, Series};
use super::route::Route;
use crate::admin::options::Options;
use crate::admin::problem::Problem;
use crate::admin::status::Standing;

/// The statistics, their listeners' permits, and what these follow.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    stats: Stats,
    places: Arc<Semaphore>,
    feeds: Arc<Feeds>,
    options: Options,
}

struct Listener {
    stats: Stats,
    feed: Arc<Feed>,
    /// The state of each counter of the feed that was sent.
    sent: Vec<Sent>,
    /// Less is followed than is kept.
    is_cut: bool,
    /// The state that an earlier connection has left the client in.
    mark: Option<Mark>,
    read: Instant,
    /// The reading of all samples that was sent last.
    all_read: Option<Instant>,
    status: Instant,
    heartbeat: Instant,
    waiting: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

/// The state of a counter that a listener was sent.
#[derive(Debug, Default)]
struct Sent {
    counts: Counts,
    unreadable: Option<Unreadable>,
}

const STATUS: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The length of an answer that nothing else ends. A server that stops gracefully waits for its answers, and
/// tells nobody that it does; ten seconds are what containers are often given before they are killed.
const LENGTH: Duration = Duration::from_secs(5);
/// The pause after which clients are asked to come again.
const RETRY: Duration = Duration::from_secs(1);
/// Samples that are remembered for one listener.
const SAMPLES: u32 = 20_000;

/// Proxies that collect an answer before they pass it on are asked not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl Live {
    pub(crate) fn new(stats: Stats, options: Options) -> Self {
        let places = options.listeners.min(Semaphore::MAX_PERMITS);
        Self { stats, places: Arc::new(Semaphore::new(places)), feeds: Arc::new(Feeds::new()), options }
    }
}

impl HasGrid for Live {
    fn grid(&self) -> &Grid {
        self.stats.grid()
    }
}

pub(crate) fn route(live: Live) -> Route {
    let events = "Events `series` with a Series, `status` with a Standing, and `trouble` with a Problem";
    Route::get("/api/live", "Samples as they change, ledger and health, as server-sent events", live, listen)
        .text("text/event-stream", events)
        .schema::<Series>()
        .schema::<Standing>()
        .most("Of more than 20,000 samples of all counters together, the latest are followed.")
}

async fn listen(asked: Asked<Live, (Counters, KeptPrecision, LastEventId)>) -> Result<Response, Problem> {
    let Asked { state: live, parameters, .. } = asked;
    let (Counters(mut counters), KeptPrecision(kept), LastEventId(mark)) = parameters;
    counters.sort();
    counters.dedup();
    let most = NonZeroU32::new(SAMPLES / u32::try_from(counters.len()).unwrap_or(u32::MAX).max(1));
    let followed = Retention { samples: most.map_or(kept.samples, |most| most.min(kept.samples)), ..kept };
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        return Err(Problem::too_many_listeners(live.options.listeners));
    };
    let now = Instant::now();
    let listener = Listener {
        sent: counters.iter().map(|_| Sent::default()).collect(),
        feed: live.feeds.feed(&live.stats, counters, followed),
        stats: live.stats,
        is_cut: followed != kept,
        mark,
        read: now,
        all_read: None,
        status: now,
        heartbeat: now + HEARTBEAT,
        waiting: VecDeque::from([Event::default().retry(RETRY)]),
        _place: place,
    };
    let events = stream::unfold(listener, async |mut listener| {
        let event = listener.next().await;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let end = match live.options.live_until {
        Some(end) => Either::Left(end),
        None => Either::Right(sleep(LENGTH)),
    };
    let mut response = Sse::new(events.take_until(end)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

impl Listener {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            sleep_until(self.read.min(self.status).min(self.heartbeat)).await;
            let now = Instant::now();
            if self.heartbeat <= now {
                self.heartbeat = now + HEARTBEAT;
                return Event::default().comment("alive");
            }
            if self.read <= now {
                self.read = self.look().await;
            } else {
                self.status = now + STATUS;
                let (ledger, health) = (self.stats.ledger().into(), self.stats.health().into());
                return event("status", &Standing { ledger, health });
            }
        }
    }

    /// Lets wait what is new to the listener, and tells when to look again.
    async fn look(&mut self) -> Instant {
        let reading = match self.feed.latest().await {
            Ok(reading) => reading,
            Err(error) => {
                let problem = Problem::without_the_store(&error, &self.stats);
                self.waiting.push_back(event("trouble", problem.details()));
                return Instant::now() + READ;
            }
        };
        let whole = self.all_read != Some(reading.all_read);
        let from = if whole { reading.oldest } else { reading.open_from };
        let cut = self.is_cut.then(|| reading.oldest.as_unix());
        self.all_read = Some(reading.all_read);
        let precision = self.feed.precision();
        let mut all = Vec::with_capacity(self.sent.len());
        for (place, (counter, sent)) in self.feed.counters().iter().zip(&mut self.sent).enumerate() {
            sent.counts = sent.counts.split_off(&reading.oldest);
            let before = sent.unreadable.clone();
            let (samples, unknown) = match reading.of(place, whole) {
                Ok(found) => {
                    // The open buckets do not tell of the others.
                    if whole {
                        sent.unreadable = found.unreadable().cloned();
                    }
                    let (counts, unknown) = (found.samples().collect(), found.unknown().collect());
                    (changes(&mut sent.counts, from, counts, &unknown), Some(unknown))
                }
                Err(unreadable) => {
                    sent.unreadable = Some(unreadable.clone());
                    (Vec::new(), None)
                }
            };
            let series = Series {
                counter: counter.to_string(),
                precision: precision.as_seconds(),
                from: cut,
                samples,
                unreadable: sent.unreadable.clone().map(Into::into),
            };
            all.push((series, unknown, sent.unreadable != before));
        }
        let counts = || self.sent.iter().map(|sent| &sent.counts);
        // After an error the first read is still to come.
        if let Some(mark) = self.mark.take() {
            let since = mark.since(reading.oldest, counts()).unwrap_or(reading.oldest);
            for (series, unknown, _) in &mut all {
                let starts = precision.starts(since..Timestamp::now());
                series.samples = match unknown {
                    Some(unknown) => complete(&series.samples, starts, unknown),
                    None => Vec::new(),
                };
            }
        }
        let news = all.iter().filter(|(series, _, is_new)| *is_new || !series.samples.is_empty());
        let mut events: Vec<_> = news.map(|(series, ..)| event("series", series)).collect();
        // The mark is on the last one: a client that missed some of them begins before all of them again.
        if let Some(last) = events.pop() {
            let mark = Mark::new(reading.oldest, reading.open_from, counts());
            events.push(last.id(mark.to_string()));
        }
        self.waiting.extend(events);
        // All listeners of a feed look at the same time.
        reading.done + READ
    }
}

/// Returns the samples that differ from `from` on between `sent` and `read`, and brings `sent` up to date. A
/// sample that is not known stays as it was.
fn changes(sent: &mut Counts, from: Timestamp, read: Counts, unknown: &BTreeSet<Timestamp>) -> Vec<Sample> {
    let mut before = sent.split_off(&from);
    let mut changed: Vec<_> = Vec::new();
    for (&start, &count) in &read {
        if before.remove(&start) != Some(count) {
            changed.push(Sample { start: start.as_unix(), count });
        }
    }
    let (stays, gone): (Counts, Counts) = before.into_iter().partition(|(start, _)| unknown.contains(start));
    let gone = gone.into_iter().filter(|(_, count)| *count > 0);
    changed.extend(gone.map(|(start, _)| Sample { start: start.as_unix(), count: 0 }));
    changed.sort_by_key(|sample| sample.start);
    sent.extend(read);
    sent.extend(stays);
    changed
}

/// Returns all of these buckets, with the counts that they have in `samples`. A client that comes again may have
/// counts that are gone by now.
fn complete(
    samples: &[Sample],
    starts: impl Iterator<Item = Timestamp>,
    unknown: &BTreeSet<Timestamp>,
) -> Vec<Sample> {
    let counts: BTreeMap<_, _> = samples.iter().map(|sample| (sample.start, sample.count)).collect();
    let known = starts.filter(|start| !unknown.contains(start)).map(Timestamp::as_unix);
    known.map(|start| Sample { start, count: counts.get(&start).copied().unwrap_or_default() }).collect()
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).expect("numbers, texts and lists of them have a form in JSON");
    Event::default().event(name).data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_new_or_changed_or_gone() {
        let map = |pairs: &[(u64, u64)]| -> Counts {
            pairs.iter().map(|&(start, count)| (Timestamp::from_unix(start), count)).collect()
        };
        type Pairs = &'static [(u64, u64)];
        let table: [(Pairs, u64, Pairs, Pairs); 5] = [
            (&[], 0, &[(1, 5)], &[(1, 5)]),
            (&[(1, 5)], 0, &[(1, 5)], &[]),
            (&[(1, 5), (2, 1)], 0, &[(1, 6), (2, 1), (3, 2)], &[(1, 6), (3, 2)]),
            (&[(1, 5), (2, 1)], 2, &[(2, 2)], &[(2, 2)]),
            (&[(1, 5), (2, 1)], 0, &[(2, 1)], &[(1, 0)]),
        ];
        for (sent, from, read, expected) in table {
            let mut after = map(sent);
            let changed = changes(&mut after, Timestamp::from_unix(from), map(read), &BTreeSet::new());
            let changed: Vec<_> = changed.iter().map(|sample| (sample.start, sample.count)).collect();
            assert_eq!(changed, expected, "{sent:?} from {from} to {read:?}");
            let mut expected = map(sent);
            expected.retain(|start, _| start.as_unix() < from);
            expected.extend(map(read));
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn what_is_not_known_any_more_is_not_gone() {
        let unix = Timestamp::from_unix;
        let mut sent = Counts::from([(unix(1), 5), (unix(2), 6)]);
        let changed = changes(&mut sent, unix(0), Counts::from([(unix(1), 7)]), &BTreeSet::from([unix(2)]));
        assert_eq!(changed, [Sample { start: 1, count: 7 }]);
        assert_eq!(sent, Counts::from([(unix(1), 7), (unix(2), 6)]));
    }
}
