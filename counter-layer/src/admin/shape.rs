//! The answers in JSON. Fields may be added; none is renamed, and none changes what it means.

use counter_core::CounterName;
use serde::Serialize;

/// A page of the counters that have samples, by name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Counters {
    pub(super) counters: Vec<KnownCounter>,
    /// What `after` is to be for the page that follows, where there is one.
    pub(super) next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<Unreadable>,
}

/// Something in the store that is not what belongs there, so that what it should be is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Unreadable {
    /// The key in the store.
    key: String,
    /// What is wrong with it.
    reason: String,
    /// The starts of the buckets whose counts are therefore not known, where it is some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct KnownCounter {
    pub(super) counter: String,
    /// The precisions that it has samples of, in seconds, ascending.
    pub(super) precisions: Vec<u32>,
    /// Everything it ever counted; null where that cannot be read.
    pub(super) lifetime: Option<u64>,
}

/// The samples of one counter, or of several.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) enum OneOrMore {
    One(Series),
    More(MoreSeries),
}

/// The samples of several counters, in the order in which they were asked for.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct MoreSeries {
    pub(super) series: Vec<Series>,
}

/// The samples of one counter at one precision.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Series {
    pub(super) counter: String,
    /// The width of the buckets in seconds.
    pub(super) precision: u32,
    /// The range, where none was asked for and more is kept than one answer has: its first second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<u64>,
    /// Ascending.
    pub(super) samples: Vec<Sample>,
    /// What of it cannot be read; there is no sample of that, and not 0 either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unreadable: Option<Unreadable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Sample {
    /// The bucket's first Unix second.
    pub(super) start: u64,
    pub(super) count: u64,
}

/// The sum of the samples of a range.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Total {
    pub(super) counter: String,
    pub(super) precision: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) total: u64,
}

/// Everything that counters ever counted, also what has left retention.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Lifetimes {
    pub(super) lifetimes: Vec<Lifetime>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Lifetime {
    pub(super) counter: String,
    /// Null where it cannot be read.
    pub(super) total: Option<u64>,
}

/// The counters with the most hits of a range, the first first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Top {
    pub(super) precision: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) top: Vec<Place>,
    /// What cannot be read: its counters have no place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Place {
    pub(super) counter: String,
    pub(super) count: u64,
}

/// An estimate of how many different visitors some counters had together.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Uniques {
    pub(super) counters: Vec<String>,
    pub(super) precision: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) uniques: u64,
    /// As a fraction of `uniques`: two estimates in three are closer than this.
    pub(super) standard_error: f64,
    /// The width of a salt epoch in seconds: unless visitors are told apart by something stable,
    /// somebody who comes in several epochs counts in each.
    pub(super) salt_epoch: u32,
}

/// What happened to everything this process has seen.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Ledger {
    pub(super) requests: Requests,
    pub(super) hits: Hits,
}

/// `observed` is the sum of `recorded`, `excluded`, `unmatched` and those that were ignored.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Requests {
    observed: u64,
    recorded: u64,
    excluded: u64,
    unmatched: u64,
    ignored: Ignored,
    /// A part of `recorded`.
    bots: u64,
    /// A part of `recorded`.
    unconfirmed: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Ignored {
    outcome: u64,
    prefetch: u64,
}

/// `recorded` is the sum of `applied`, `pending`, `expired` and those that were dropped.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Hits {
    recorded: u64,
    applied: u64,
    pending: u64,
    expired: u64,
    dropped: Dropped,
    /// A part of `recorded`.
    overflow: u64,
    /// A part of `applied`.
    lost_by_server: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Dropped {
    wrong_type: u64,
    not_a_number: u64,
    out_of_range: u64,
    ahead: u64,
    in_doubt: u64,
    other: u64,
}

/// How this process's way to the store is doing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Health {
    status: Status,
    pending: u64,
    pending_cells: usize,
    retained_bytes: usize,
    connections: u64,
    seconds_since_acknowledged: Option<f64>,
    failing_for_seconds: Option<f64>,
    last_error: Option<String>,
    /// For how long nobody has begun to send hits that wait.
    stalled_for_seconds: Option<f64>,
    /// By how much the clock of this process was ahead of the store's at the last batch.
    clock_skew_seconds: Option<i64>,
}

/// What a `status` event says.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Standing {
    pub(super) ledger: Ledger,
    pub(super) health: Health,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
enum Status {
    Ok,
    Failing,
}

impl Series {
    /// With a sample for every bucket of the range, or for those only that have one.
    pub(super) fn new(counter: &CounterName, series: &counter_core::Series, filled: bool) -> Self {
        let samples = if filled {
            series.zero_filled().map(Sample::from).collect()
        } else {
            series.samples.iter().copied().map(Sample::from).collect()
        };
        Self {
            counter: counter.to_string(),
            precision: series.precision.as_seconds(),
            from: None,
            samples,
            unreadable: series.unreadable.clone().map(Unreadable::from),
        }
    }

    /// Of a counter under whose key there is something else.
    pub(super) fn unreadable(
        counter: &CounterName,
        precision: u32,
        why: counter_core::visits::Unreadable,
    ) -> Self {
        Self {
            counter: counter.to_string(),
            precision,
            from: None,
            samples: Vec::new(),
            unreadable: Some(why.into()),
        }
    }
}

/// What an answer names of what cannot be read.
const NAMED: usize = 100;

impl Unreadable {
    /// Each key once, and 100 at most.
    pub(super) fn list(all: impl IntoIterator<Item = counter_core::visits::Unreadable>) -> Vec<Self> {
        let mut list: Vec<_> = all.into_iter().map(Self::from).collect();
        list.sort_by(|one, other| (&one.key, &one.reason).cmp(&(&other.key, &other.reason)));
        list.dedup();
        list.truncate(NAMED);
        list
    }
}

impl From<counter_core::visits::Unreadable> for Unreadable {
    fn from(unreadable: counter_core::visits::Unreadable) -> Self {
        let counter_core::visits::Unreadable { key, reason, buckets, .. } = unreadable;
        Self { key, reason, buckets: buckets.into_iter().map(counter_core::Timestamp::as_unix).collect() }
    }
}

impl From<counter_core::Sample> for Sample {
    fn from(sample: counter_core::Sample) -> Self {
        Self { start: sample.start.as_unix(), count: sample.count }
    }
}

impl From<counter_core::Ledger> for Ledger {
    fn from(ledger: counter_core::Ledger) -> Self {
        let (requests, hits) = (ledger.requests, ledger.hits);
        Self {
            requests: Requests {
                observed: requests.observed,
                recorded: requests.recorded,
                excluded: requests.excluded,
                unmatched: requests.unmatched,
                ignored: Ignored { outcome: requests.ignored.outcome, prefetch: requests.ignored.prefetch },
                bots: requests.bots,
                unconfirmed: requests.unconfirmed,
            },
            hits: Hits {
                recorded: hits.recorded,
                applied: hits.applied,
                pending: hits.pending,
                expired: hits.expired,
                dropped: Dropped {
                    wrong_type: hits.dropped.wrong_type,
                    not_a_number: hits.dropped.not_a_number,
                    out_of_range: hits.dropped.out_of_range,
                    ahead: hits.dropped.ahead,
                    in_doubt: hits.dropped.in_doubt,
                    other: hits.dropped.other,
                },
                overflow: hits.overflow,
                lost_by_server: hits.lost_by_server,
            },
        }
    }
}

impl From<counter_core::Health> for Health {
    fn from(health: counter_core::Health) -> Self {
        Self {
            status: if health.is_well() { Status::Ok } else { Status::Failing },
            pending: health.pending,
            pending_cells: health.pending_cells,
            retained_bytes: health.retained_bytes,
            connections: health.connections,
            seconds_since_acknowledged: health.since_acknowledged.map(|since| since.as_secs_f64()),
            failing_for_seconds: health.failing_for.map(|since| since.as_secs_f64()),
            last_error: health.last_error,
            stalled_for_seconds: health.stalled_for.map(|since| since.as_secs_f64()),
            clock_skew_seconds: health.clock_skew,
        }
    }
}
