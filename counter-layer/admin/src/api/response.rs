//! The answers in JSON. Fields may be added; none is renamed, and none changes what it means.

use counter_core::CounterName;
use serde::Serialize;
use utoipa::ToSchema;

/// A page of the counters that have samples, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counters {
    pub(crate) counters: Vec<KnownCounter>,
    /// The value of `after` for the next page, if there is one.
    pub(crate) next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Something in the store that is not what belongs there, so that what it should be is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Unreadable {
    /// The key in the store.
    key: String,
    /// The reason.
    reason: String,
    /// The starts of the buckets whose counts are not known, where only some are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KnownCounter {
    pub(crate) counter: String,
    /// The precisions that it has samples of, in seconds, ascending.
    pub(crate) precisions: Vec<u32>,
    /// Everything it ever counted here; null where that cannot be read, or only another program counted it.
    pub(crate) lifetime: Option<u64>,
}

/// The samples of one counter, or of several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(Series),
    More(MoreSeries),
}

/// The samples of several counters, in the order in which they were asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoreSeries {
    pub(crate) series: Vec<Series>,
}

/// The samples of one counter at one precision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Series {
    pub(crate) counter: String,
    /// The width of the buckets in seconds.
    pub(crate) precision: u32,
    /// The range, where none was asked for and more can be read than the answer has: its first second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<u64>,
    /// Ascending.
    pub(crate) samples: Vec<Sample>,
    /// The part that cannot be read: it has no samples, which does not mean 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreadable: Option<Unreadable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Sample {
    /// The bucket's first Unix second.
    pub(crate) start: u64,
    pub(crate) count: u64,
}

/// The sum of the samples of a range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Total {
    pub(crate) counter: String,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) total: u64,
}

/// Everything that this library ever counted, also what has left retention.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lifetimes {
    pub(crate) lifetimes: Vec<Lifetime>,
    /// The keys that cannot be read: their totals are null.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lifetime {
    pub(crate) counter: String,
    /// Null where it cannot be read, or only another program counted it: what others count in the layout of the book
    /// is in samples and not in lifetimes.
    pub(crate) total: Option<u64>,
}

/// The counters with the most hits of a range, the first first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Top {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) top: Vec<Place>,
    /// The keys that cannot be read: their counters have no place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Place {
    pub(crate) counter: String,
    pub(crate) count: u64,
}

/// The values of labels with the most hits of a range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Labels {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// In the order in which they were asked for; otherwise all, by name.
    pub(crate) labels: Vec<LabelTop>,
}

/// The values of one label.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelTop {
    pub(crate) label: String,
    /// All hits: those of every value, of none and of others.
    pub(crate) total: u64,
    /// The hits of requests without a value.
    pub(crate) none: u64,
    /// The hits of values that had no place of their own, and of texts that are no values.
    pub(crate) other: u64,
    /// The most hits that any one value may have among the others: each has its count, or up to this many more.
    pub(crate) missed: u64,
    /// True if the label has more values than one read may cover: `total` lacks some of the rarest.
    pub(crate) is_partial: bool,
    /// The values with the most hits, in descending order.
    pub(crate) values: Vec<LabelValue>,
    /// The keys that cannot be read: their values are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelValue {
    pub(crate) value: String,
    pub(crate) count: u64,
}

/// An estimate of how many different visitors some counters had together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Uniques {
    pub(crate) counters: Vec<String>,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) uniques: u64,
    /// The error as a fraction of `uniques`: two estimates in three are closer than this.
    pub(crate) standard_error: f64,
    /// The width of a salt epoch in seconds: unless visitors are told apart by something stable,
    /// a visitor of several epochs counts in each.
    pub(crate) salt_epoch: u32,
}

/// The counters with the highest means of a range, the first first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Slowest {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The measure: `time`, `body` or `size`.
    pub(crate) of: &'static str,
    /// The unit of the values: `seconds` or `bytes`.
    pub(crate) unit: &'static str,
    pub(crate) slowest: Vec<Summary>,
    /// The error as a fraction of a value: true ones are no further away, and that of `sum_of_squares` no further than
    /// twice as far and a bit.
    pub(crate) relative_error: f64,
    /// The keys that cannot be read: their counters have no place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// The summary that *Redis in Action* keeps of a time under `stats:`, and the mean.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Summary {
    pub(crate) counter: String,
    pub(crate) count: u64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) sum: f64,
    pub(crate) sum_of_squares: f64,
    pub(crate) mean: f64,
}

/// Percentiles of what some counters measured together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Percentiles {
    pub(crate) counters: Vec<String>,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The measure: `time`, `body` or `size`.
    pub(crate) of: &'static str,
    /// The unit of the values: `seconds` or `bytes`.
    pub(crate) unit: &'static str,
    /// The number of requests that were measured.
    pub(crate) count: u64,
    /// Over all of the range, in the order in which they were asked for.
    pub(crate) percentiles: Vec<Percentile>,
    /// The error as a fraction of a value: the true one is no further away.
    pub(crate) relative_error: f64,
    /// The buckets in which anything was measured, ascending.
    pub(crate) buckets: Vec<PercentileBucket>,
    /// The keys that cannot be read: what is in them is left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Percentile {
    /// The share of all requests that do not exceed the value.
    pub(crate) q: f64,
    /// Null where nothing was measured.
    pub(crate) value: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PercentileBucket {
    /// The bucket's first Unix second.
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// In the order of the percentiles.
    pub(crate) values: Vec<f64>,
}

/// Numbers of requests by their status, of some counters together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Statuses {
    pub(crate) counters: Vec<String>,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Which statuses these are: `status` of HTTP, or `grpc`.
    pub(crate) of: &'static str,
    /// The number of requests that have a status.
    pub(crate) count: u64,
    /// Ascending. Of HTTP, 499 is a request that was aborted, and 0 one whose service failed without an answer.
    pub(crate) statuses: Vec<StatusCount>,
    /// The keys that cannot be read: what is in them is left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusCount {
    pub(crate) status: u16,
    pub(crate) count: u64,
}

impl Series {
    /// Creates a series with a sample for every bucket of the range, or only for those that have one.
    pub(crate) fn new(counter: &CounterName, series: &counter_core::Series, filled: bool) -> Self {
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

    /// Creates a series of a counter whose key holds something else.
    pub(crate) fn unreadable(
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

/// The number of unreadable keys that an answer names.
const NAMED: usize = 100;

impl Unreadable {
    /// Each key once, and 100 at most.
    pub(crate) fn list(all: impl IntoIterator<Item = counter_core::visits::Unreadable>) -> Vec<Self> {
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
