//! JSON responses. You can add fields, but must not rename fields or change the meaning.

use counter_core::CounterName;
use counter_core::visits::Extent;
use serde::Serialize;
use utoipa::ToSchema;

/// A page of the counters with samples, sorted by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counters {
    pub(crate) counters: Vec<KnownCounter>,
    /// The value of `after` for the next page, if more counters exist.
    pub(crate) next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// An invalid value in the store. The actual value is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Unreadable {
    /// The key in the store.
    key: String,
    /// The reason why the value is invalid.
    reason: String,
    /// The start times of the buckets with unknown counts, unless all counts are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
    /// True if only a part of the counts is missing, such as those of a site. The counts are too low.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_part: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KnownCounter {
    pub(crate) counter: String,
    /// The precisions with samples in seconds, in ascending order.
    pub(crate) precisions: Vec<u32>,
    /// The lifetime total; null if it can't be read, or if only a different program counted.
    pub(crate) lifetime: Option<u64>,
}

/// Samples of a single counter or of multiple counters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(Series),
    More(MoreSeries),
}

/// Samples of multiple counters, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoreSeries {
    pub(crate) series: Vec<Series>,
}

/// Samples of a counter at one precision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Series {
    pub(crate) counter: String,
    /// Bucket width in seconds.
    pub(crate) precision: u32,
    /// Unix time of the start of the range, if the request does not have `from` and the range was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<u64>,
    /// The samples, in ascending order of time.
    pub(crate) samples: Vec<Sample>,
    /// The unreadable part of the series. Missing samples in this part are unknown instead of 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreadable: Option<Unreadable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Sample {
    /// Unix time of the bucket start.
    pub(crate) start: u64,
    pub(crate) count: u64,
}

/// The sum of the samples in a range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Total {
    pub(crate) counter: String,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) total: u64,
}

/// Lifetime totals of this library, including hits that are older than retention.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lifetimes {
    pub(crate) lifetimes: Vec<Lifetime>,
    /// Unreadable keys. The affected totals are null.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lifetime {
    pub(crate) counter: String,
    /// The lifetime total; null if it can't be read, or if only a different program counted. The *Redis in
    /// Action* layout, which other programs can write, does not contain lifetime totals.
    pub(crate) total: Option<u64>,
}

/// The counters with the most hits in a range, in descending order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Top {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) top: Vec<Place>,
    /// Unreadable keys. The affected counters are missing in `top`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// The views of the site, and the pages with the most views in a range, in descending order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Views {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Views of all pages, including those that are not listed.
    pub(crate) total: u64,
    pub(crate) pages: Vec<Place>,
    /// Unreadable keys. The affected pages are missing in `pages`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Place {
    pub(crate) counter: String,
    pub(crate) count: u64,
}

/// The label values with the most hits in a range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Labels {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The length of a salt epoch in seconds, with people. A person will count again in the next epoch, unless the identity is
    /// stable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) salt_epoch: Option<u32>,
    /// The labels, in the order of the request, or sorted by name if the request does not name labels.
    pub(crate) labels: Vec<LabelTop>,
}

/// The values of a label.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelTop {
    pub(crate) label: String,
    /// The page, if the values are limited to a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counter: Option<String>,
    /// All hits, including `none` and `other`.
    pub(crate) total: u64,
    /// Hits without a value.
    pub(crate) none: u64,
    /// People without a value, as for a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) none_people: Option<Option<u64>>,
    /// Unix time of the first bucket with people, if there are earlier hits in the range. People were not counted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) people_since: Option<u64>,
    /// True if a visitor of several sites counts once per site.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_upper_bound: bool,
    /// Hits with values that did not fit into the limit, or with invalid values. For a page, this is the rest of the
    /// hits.
    pub(crate) other: u64,
    /// The maximum number of hits in `other` that might belong to a single value. The actual count of a value
    /// is up to this much higher.
    pub(crate) missed: u64,
    /// True if the label has too many values to read. In this case, `total` does not include some rare
    /// values.
    pub(crate) is_partial: bool,
    /// The values with the most hits, in descending order.
    pub(crate) values: Vec<LabelValue>,
    /// Unreadable keys. The affected values are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelValue {
    pub(crate) value: String,
    pub(crate) count: u64,
    /// An estimate of the people, if requested. Null if they can't be read, or if no hit had a visitor, e.g. because the label
    /// does not count people, or all hits are from bots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) people: Option<Option<u64>>,
    /// The operator of the bot. Only for known bots in the label `bot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operator: Option<&'static str>,
    /// The purpose of the bot, e.g. `AI training`. Only for known bots in the label `bot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) purpose: Option<&'static str>,
    /// The kind of source: `search`, `social`, `mail`, `assistant` or `other`. Only for known groups in the label `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
}

/// The pages with the most hits of a label value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ValuePages {
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) label: String,
    pub(crate) value: String,
    /// All hits of the value.
    pub(crate) total: u64,
    /// The rest of the hits of the value, e.g. of pages that did not fit into the limit.
    pub(crate) other: u64,
    /// The maximum number of hits in `other` that might belong to a single page because of the limits. The actual count
    /// of a page is up to this much higher.
    pub(crate) missed: u64,
    /// True if the label has too many pairs of a page and a value to read.
    pub(crate) is_partial: bool,
    /// The pages with the most hits, in descending order.
    pub(crate) pages: Vec<Place>,
    /// Unreadable keys. The affected pages are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// An estimate of the number of distinct visitors to any of the counters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Uniques {
    pub(crate) counters: Vec<String>,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) uniques: u64,
    /// The standard error as a fraction of `uniques`. Two thirds of all estimates are within this error.
    pub(crate) standard_error: f64,
    /// True if a visitor of several sites counts once per site.
    pub(crate) is_upper_bound: bool,
    /// The length of a salt epoch in seconds. A visitor will count again in the next epoch, unless the
    /// identity is stable.
    pub(crate) salt_epoch: u32,
}

/// The counters with the highest mean in a range, in descending order.
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
    /// The maximum error as a fraction of the value. The error of `sum_of_squares` can be slightly more than
    /// two times this.
    pub(crate) relative_error: f64,
    /// Unreadable keys. The affected counters are missing in `slowest`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// The mean, and the summary that *Redis in Action* stores under `stats:`.
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

/// Percentiles of a measure over all counters in the request.
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
    /// The number of measured requests.
    pub(crate) count: u64,
    /// Percentiles over the whole range, in the order of the request.
    pub(crate) percentiles: Vec<Percentile>,
    /// The maximum error as a fraction of the value.
    pub(crate) relative_error: f64,
    /// The buckets with measured requests, in ascending order.
    pub(crate) buckets: Vec<PercentileBucket>,
    /// Unreadable keys. The affected values are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Percentile {
    /// The fraction of requests that do not exceed this value.
    pub(crate) q: f64,
    /// The value in the unit of the measure; null if no requests have been measured.
    pub(crate) value: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PercentileBucket {
    /// Unix time of the bucket start.
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// The percentiles of the bucket, in the order of `percentiles`.
    pub(crate) values: Vec<f64>,
}

/// The number of requests by status, over all counters in the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Statuses {
    pub(crate) counters: Vec<String>,
    pub(crate) precision: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The measure: `status` for HTTP, or `grpc`.
    pub(crate) of: &'static str,
    /// The number of requests with a status.
    pub(crate) count: u64,
    /// The statuses, in ascending order. For HTTP, 499 is an aborted request, and 0 a service error instead
    /// of a response.
    pub(crate) statuses: Vec<StatusCount>,
    /// Unreadable keys. The affected values are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusCount {
    pub(crate) status: u16,
    pub(crate) count: u64,
}

impl Series {
    /// Creates a series. If `filled`, this includes zero samples for empty buckets.
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

    /// Creates a series for a counter that can't be read.
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

/// Maximum number of unreadable keys in a response.
const MAX_KEYS: usize = 100;

impl Unreadable {
    /// Returns the distinct keys, up to [`MAX_KEYS`].
    pub(crate) fn list(all: impl IntoIterator<Item = counter_core::visits::Unreadable>) -> Vec<Self> {
        let mut list: Vec<_> = all.into_iter().map(Self::from).collect();
        list.sort_by(|one, other| (&one.key, &one.reason).cmp(&(&other.key, &other.reason)));
        list.dedup();
        list.truncate(MAX_KEYS);
        list
    }
}

impl From<counter_core::visits::Unreadable> for Unreadable {
    fn from(unreadable: counter_core::visits::Unreadable) -> Self {
        let counter_core::visits::Unreadable { key, reason, extent, .. } = unreadable;
        let buckets = extent.buckets().iter().map(|start| start.as_unix()).collect();
        Self { key, reason, buckets, is_part: extent == Extent::Part }
    }
}

impl From<counter_core::Sample> for Sample {
    fn from(sample: counter_core::Sample) -> Self {
        Self { start: sample.start.as_unix(), count: sample.count }
    }
}
