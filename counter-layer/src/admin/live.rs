//! Series while they grow, as server-sent events.
//!
//! Nothing runs for a listener but the body of his answer, which reads the store when it is asked for more
//! and a second has gone by. So who is slow to read makes fewer reads, and who has left makes none.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use counter_core::{CounterName, Precision, Retention, Stats, Store, Timestamp};
use futures_util::{StreamExt, stream};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::options::Options;
use super::problem::Problem;
use super::query::Query;
use super::shape::{Sample, Series, Standing};

/// The statistics and the places of those who listen to them.
#[derive(Clone, Debug)]
pub(super) struct Live<S> {
    stats: Stats<S>,
    places: Arc<Semaphore>,
    options: Options,
}

struct Listener<S> {
    stats: Stats<S>,
    precision: Precision,
    retention: Retention,
    counters: Vec<(CounterName, Sent)>,
    /// What came before this was sent to him on an earlier connection.
    since: Option<Timestamp>,
    read: Instant,
    read_all: Instant,
    status: Instant,
    heartbeat: Instant,
    waiting: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

/// What a listener knows of a counter: the count of each bucket that is kept.
type Sent = BTreeMap<Timestamp, u64>;

/// Between two reads of the buckets that change as a rule.
const READ: Duration = Duration::from_secs(1);
/// Between two reads of all that is kept, where hits may arrive late or a counter be forgotten.
const READ_ALL: Duration = Duration::from_secs(10);
const STATUS: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(15);
/// For so many seconds after its end a bucket still changes as a rule.
const OPEN: u64 = 60;
/// Samples that are remembered for one listener.
const SAMPLES: usize = 20_000;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies that collect an answer before they pass it on are asked not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl<S> Live<S> {
    pub(super) fn new(stats: Stats<S>, options: Options) -> Self {
        let places = options.listeners.min(Semaphore::MAX_PERMITS);
        Self { stats, places: Arc::new(Semaphore::new(places)), options }
    }
}

pub(super) async fn live<S: Store>(
    State(live): State<Live<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision"])?;
    let (mut counters, kept) = (query.counters()?, &live.stats.grid().counts);
    counters.sort();
    counters.dedup();
    let retention = query.kept(kept)?;
    let samples = (retention.samples.get() as usize).saturating_mul(counters.len());
    if samples > SAMPLES {
        let allowed = format!("counters and precisions that keep {SAMPLES} samples together");
        let value = format!("{samples} samples");
        return Err(Problem::parameter("too many samples to follow", "counter", Some(&value), allowed));
    }
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        return Err(Problem::too_many_listeners(live.options.listeners));
    };
    let now = Instant::now();
    let listener = Listener {
        stats: live.stats,
        precision: retention.precision,
        retention,
        counters: counters.into_iter().map(|counter| (counter, Sent::new())).collect(),
        since: last_event(&asked),
        read: now,
        read_all: now,
        status: now,
        heartbeat: now + HEARTBEAT,
        waiting: VecDeque::new(),
        _place: place,
    };
    let events = stream::unfold(listener, async |mut listener| {
        let event = listener.next().await;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let mut response = Sse::new(events.take_until(live.options.live_until)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// What the client saw last, if it is anything of ours.
fn last_event(asked: &HeaderMap) -> Option<Timestamp> {
    asked.get(LAST_EVENT_ID)?.to_str().ok()?.parse().ok().map(Timestamp::from_unix)
}

impl<S: Store> Listener<S> {
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
                self.look().await;
                self.read = Instant::now() + READ;
            } else {
                self.status = now + STATUS;
                let (ledger, health) = (self.stats.ledger().into(), self.stats.health().into());
                return event("status", &Standing { ledger, health });
            }
        }
    }

    /// Reads, and lets wait what is new to the listener.
    async fn look(&mut self) {
        let (now, instant) = (Timestamp::now(), Instant::now());
        let (oldest, end) = (self.retention.oldest(now), self.precision.bucket(now).end());
        let open = self.precision.bucket(now.minus(OPEN)).start.max(oldest);
        let all = self.read_all <= instant;
        let from = if all { oldest } else { open };
        let names: Vec<_> = self.counters.iter().map(|(name, _)| name.clone()).collect();
        let series = match self.stats.several(&names, self.precision, from..end).await {
            Ok(series) => series,
            Err(error) => {
                let problem = Problem::without_the_store(&error, &self.stats);
                self.waiting.push_back(event("trouble", problem.details()));
                return;
            }
        };
        if all {
            self.read_all = instant + READ_ALL;
        }
        // After an error the first read is still to come.
        let since = self.since.take().unwrap_or(Timestamp::MIN);
        let mut events = Vec::new();
        for ((counter, sent), series) in self.counters.iter_mut().zip(series) {
            *sent = sent.split_off(&oldest);
            let read = series.samples.iter().map(|sample| (sample.start, sample.count)).collect();
            let mut samples = changes(sent, from, read);
            samples.retain(|sample| sample.start >= since.as_unix());
            if !samples.is_empty() {
                let precision = self.precision.as_seconds();
                let series = Series { counter: counter.to_string(), precision, samples };
                events.push(event("series", &series));
            }
        }
        // The mark is on the last one: who missed some of them begins before all of them again.
        if let Some(last) = events.pop() {
            events.push(last.id(open.to_string()));
        }
        self.waiting.extend(events);
    }
}

/// What differs from `from` on between what was sent and what was read, which is what will have been sent.
fn changes(sent: &mut Sent, from: Timestamp, read: Sent) -> Vec<Sample> {
    let mut before = sent.split_off(&from);
    let mut changed: Vec<_> = Vec::new();
    for (&start, &count) in &read {
        if before.remove(&start) != Some(count) {
            changed.push(Sample { start: start.as_unix(), count });
        }
    }
    let gone = before.into_iter().filter(|(_, count)| *count > 0);
    changed.extend(gone.map(|(start, _)| Sample { start: start.as_unix(), count: 0 }));
    changed.sort_by_key(|sample| sample.start);
    sent.extend(read);
    changed
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
        let map = |pairs: &[(u64, u64)]| -> Sent {
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
            let changed = changes(&mut after, Timestamp::from_unix(from), map(read));
            let changed: Vec<_> = changed.iter().map(|sample| (sample.start, sample.count)).collect();
            assert_eq!(changed, expected, "{sent:?} from {from} to {read:?}");
            let mut expected = map(sent);
            expected.retain(|start, _| start.as_unix() < from);
            expected.extend(map(read));
            assert_eq!(after, expected);
        }
    }
}
