use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::family::line;
use crate::family::line::{FORMAT, cut, encoded, name};
use crate::family::name::CounterName;
use crate::family::store_id::{StoreId, StoreIdError};
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Precision, Precisions, Retention, Sample, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::Unreadable;

/// The format versions that are written, without and with distributions. A number must never be used again
/// for a different format.
const VERSIONS: [u32; 2] = [3, 4];

/// The format versions that can be read. Dumps in version 1 and 2 have no checksums, or no stores.
const READABLE_VERSIONS: RangeInclusive<u32> = 1..=4;

/// Maximum number of samples in a line.
pub(super) const MAX_LINE_SAMPLES: usize = 500;

/// Maximum number of bins in a line. This is the limit for a part of a batch.
pub(super) const MAX_CELL_BINS: usize = crate::visits::pending::MAX_CELL_BINS;

/// Maximum number of unreadable buckets to list for a counter.
const MAX_UNREADABLE_BUCKETS: usize = 500;

/// The maximum count supported by all stores.
pub(super) const MAX_COUNT: u64 = i64::MAX.cast_unsigned();

/// The totals of a dump, as written to the final line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Dumped {
    /// Counters listed by the store, because they have samples or a lifetime.
    pub counters: u64,
    /// Bucket counts.
    pub samples: u64,
    /// Visitor sketches.
    pub sketches: u64,
    /// Distributions, in parts of up to 60 bins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub distributions: u64,
    /// Counters with a lifetime.
    pub lifetimes: u64,
    /// Unreadable entries, which are reported in separate lines.
    pub unreadable: u64,
}

/// The content of a line after parsing, with validated values.
#[derive(Debug, PartialEq)]
pub(super) enum Record {
    Begin { id: String, stores: Vec<StoreId> },
    Samples { precision: Precision, counter: CounterName, samples: Vec<Sample> },
    Visitors { bucket: Bucket, counter: CounterName, sketch: Sketch },
    Bins { bucket: Bucket, counter: CounterName, bins: Vec<(Bin, u64)> },
    Lifetime { counter: CounterName, count: u64 },
    Unreadable,
    End(Dumped),
}

/// A line in JSON, with the line number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    line: u64,
    entry: Entry<'a>,
}

/// The content of a line in JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Entry<'a> {
    Dump {
        format: Cow<'a, str>,
        version: u32,
        id: String,
        time: u64,
        counts: Vec<LineRetention>,
        visitors: Vec<LineRetention>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        distributions: Vec<LineRetention>,
        /// The stores with counts in the dump. Not included by older versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stores: Vec<String>,
    },
    Samples {
        precision: String,
        counter: Cow<'a, str>,
        /// Pairs of a start and a count.
        counts: Vec<(u64, u64)>,
    },
    Visitors {
        precision: String,
        counter: Cow<'a, str>,
        start: u64,
        /// Registers in the Redis format, encoded as base64.
        registers: String,
    },
    Bins {
        precision: String,
        counter: Cow<'a, str>,
        start: u64,
        /// Pairs of a bin and a count.
        bins: Vec<(String, u64)>,
    },
    Lifetime {
        counter: Cow<'a, str>,
        count: u64,
    },
    Unreadable {
        key: String,
        reason: String,
        /// Start times of the missing buckets. If empty, all buckets of the key are missing.
        buckets: Vec<u64>,
    },
    End(Dumped),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineRetention {
    precision: String,
    samples: u32,
}

impl<'a> Entry<'a> {
    pub(super) fn begin(id: WriterId, time: Timestamp, grid: &Grid, stores: &[StoreId]) -> Self {
        let retained = |retention: Retention| LineRetention {
            precision: retention.precision.to_string(),
            samples: retention.samples.get(),
        };
        Self::Dump {
            format: FORMAT.into(),
            version: VERSIONS[usize::from(grid.distributions.is_some())],
            id: id.to_string(),
            time: time.as_unix(),
            counts: grid.counts.iter().map(retained).collect(),
            visitors: grid.visitors.iter().map(retained).collect(),
            distributions: grid.distributions.iter().flat_map(Precisions::iter).map(retained).collect(),
            stores: stores.iter().map(StoreId::to_string).collect(),
        }
    }

    pub(super) fn samples(precision: Precision, counter: &'a CounterName, samples: &[Sample]) -> Self {
        let counts = samples.iter().map(|sample| (sample.start.as_unix(), sample.count)).collect();
        Self::Samples { precision: precision.to_string(), counter: Cow::Borrowed(counter), counts }
    }

    pub(super) fn visitors(bucket: Bucket, counter: &'a CounterName, sketch: &Sketch) -> Self {
        Self::Visitors {
            precision: bucket.precision.to_string(),
            counter: Cow::Borrowed(counter),
            start: bucket.start.as_unix(),
            registers: encoded(sketch),
        }
    }

    pub(super) fn bins(bucket: Bucket, counter: &'a CounterName, bins: &[(Bin, u64)]) -> Self {
        Self::Bins {
            precision: bucket.precision.to_string(),
            counter: Cow::Borrowed(counter),
            start: bucket.start.as_unix(),
            bins: bins.iter().map(|(bin, count)| (bin.to_string(), *count)).collect(),
        }
    }

    pub(super) fn lifetime(counter: &'a CounterName, count: u64) -> Self {
        Self::Lifetime { counter: Cow::Borrowed(counter), count }
    }

    pub(super) fn unreadable(unreadable: &Unreadable) -> Self {
        let buckets = unreadable
            .extent
            .buckets()
            .iter()
            .take(MAX_UNREADABLE_BUCKETS)
            .map(|start| start.as_unix())
            .collect();
        Self::Unreadable { key: cut(&unreadable.key), reason: cut(&unreadable.reason), buckets }
    }

    /// Formats the line with this number, without a line ending.
    pub(super) fn text(self, line: u64) -> String {
        serde_json::to_string(&Line { line, entry: self }).expect("texts and numbers are JSON")
    }
}

/// Parses a line, and returns the line number and the content. The error describes the expected content.
pub(super) fn parse(bytes: &[u8]) -> Result<(u64, Record), String> {
    let check_version = || line::check_version(bytes, READABLE_VERSIONS);
    // A newer version can have a first line that we can't read, so the version is the better reason.
    let Line { line, entry } =
        line::read(bytes, "a line of a dump").map_err(|reason| check_version().err().unwrap_or(reason))?;
    let record = match entry {
        Entry::Dump { id, stores, .. } => {
            check_version()?;
            begin(&id, &stores)?
        }
        Entry::Samples { precision, counter, counts } => {
            let precision = self::precision(&precision)?;
            Record::Samples { precision, counter: name(&counter)?, samples: samples(precision, counts)? }
        }
        Entry::Visitors { precision, counter, start, registers } => Record::Visitors {
            bucket: bucket(self::precision(&precision)?, start)?,
            counter: name(&counter)?,
            sketch: line::registers(&registers)?,
        },
        Entry::Bins { precision, counter, start, bins } => Record::Bins {
            bucket: bucket(self::precision(&precision)?, start)?,
            counter: name(&counter)?,
            bins: self::bins(&bins)?,
        },
        Entry::Lifetime { counter, count } => {
            Record::Lifetime { counter: name(&counter)?, count: positive(count)? }
        }
        Entry::Unreadable { .. } => Record::Unreadable,
        Entry::End(dumped) => Record::End(dumped),
    };
    Ok((line, record))
}

fn begin(id: &str, stores: &[String]) -> Result<Record, String> {
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err("an id of 32 hexadecimal digits".to_owned());
    }
    let stores = stores.iter().map(|id| id.parse());
    let stores = stores.collect::<Result<_, StoreIdError>>().map_err(|error| error.to_string())?;
    Ok(Record::Begin { id: id.to_ascii_lowercase(), stores })
}

fn samples(precision: Precision, counts: Vec<(u64, u64)>) -> Result<Vec<Sample>, String> {
    if counts.len() > MAX_LINE_SAMPLES {
        return Err(format!("at most {MAX_LINE_SAMPLES} samples"));
    }
    let sample =
        |(start, count)| Ok(Sample { start: bucket(precision, start)?.start, count: positive(count)? });
    counts.into_iter().map(sample).collect()
}

fn bins(bins: &[(String, u64)]) -> Result<Vec<(Bin, u64)>, String> {
    if bins.len() > MAX_CELL_BINS {
        return Err(format!("at most {MAX_CELL_BINS} bins"));
    }
    let bin = |(bin, count): &(String, u64)| {
        let bin = Bin::parse(bin).ok_or_else(|| "a bin, such as t-17 or c404".to_owned())?;
        Ok((bin, positive(*count)?))
    };
    let bins = bins.iter().map(bin).collect::<Result<Vec<_>, String>>()?;
    let is_ascending = bins.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if is_ascending { Ok(bins) } else { Err("each bin once, ascending".to_owned()) }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn precision(text: &str) -> Result<Precision, String> {
    text.parse().map_err(|error| format!("a precision ({error})"))
}

fn positive(count: u64) -> Result<u64, String> {
    if (1..=MAX_COUNT).contains(&count) { Ok(count) } else { Err(format!("a count from 1 to {MAX_COUNT}")) }
}

fn bucket(precision: Precision, start: u64) -> Result<Bucket, String> {
    let bucket = precision.bucket(Timestamp::from_unix(start));
    let is_start = bucket.start.as_unix() == start;
    if is_start { Ok(bucket) } else { Err(format!("the start of a bucket of the precision {precision}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::line::MAX_LINE_BYTES;
    use crate::visits::store::Extent;

    fn precision(seconds: u32) -> Precision {
        Precision::try_from(seconds).expect("not 0")
    }

    #[test]
    fn lines_are_parsed_as_written() {
        let counter = CounterName::new("a \"b\" \\ é").expect("a name");
        let sample = |start, count| Sample { start: Timestamp::from_unix(start), count };
        let samples = vec![sample(0, 1), sample(60, MAX_COUNT)];
        let sketch: Sketch = (0..4000_u32).map(|n| crate::sketch::Register::of(&n.to_le_bytes())).collect();
        let offset = precision(86_400).utc_offset(3600).bucket(Timestamp::from_unix(1_585_908_965));
        for (entry, record) in [
            (
                Entry::samples(precision(60), &counter, &samples),
                Record::Samples {
                    precision: precision(60),
                    counter: counter.clone(),
                    samples: samples.clone(),
                },
            ),
            (
                Entry::visitors(offset, &counter, &sketch),
                Record::Visitors { bucket: offset, counter: counter.clone(), sketch: sketch.clone() },
            ),
            (
                Entry::bins(offset, &counter, &[(Bin::size(0), 1), (Bin::status(404), MAX_COUNT)]),
                Record::Bins {
                    bucket: offset,
                    counter: counter.clone(),
                    bins: vec![(Bin::size(0), 1), (Bin::status(404), MAX_COUNT)],
                },
            ),
            (Entry::lifetime(&counter, 7), Record::Lifetime { counter: counter.clone(), count: 7 }),
            (Entry::unreadable(&Unreadable::new("key", "reason")), Record::Unreadable),
            (Entry::End(Dumped::default()), Record::End(Dumped::default())),
        ] {
            let text = entry.text(12);
            assert!(text.len() <= MAX_LINE_BYTES && !text.contains('\n'), "{text}");
            assert_eq!(parse(text.as_bytes()), Ok((12, record)));
        }
    }

    #[test]
    fn the_longest_lines_can_be_parsed() {
        let name = CounterName::new(&"\"".repeat(CounterName::MAX_BYTES)).expect("a name");
        let samples = vec![Sample { start: Timestamp::MAX, count: MAX_COUNT }; MAX_LINE_SAMPLES];
        let ranks = (0..16_384).map(|index| crate::sketch::Register { index, rank: 51 });
        for entry in [
            Entry::samples(precision(1), &name, &samples),
            Entry::visitors(precision(1).bucket(Timestamp::MAX), &name, &ranks.collect()),
            Entry::unreadable(
                &Unreadable::new("\u{1}".repeat(100_000), "é".repeat(100_000))
                    .with_extent(Extent::Buckets(vec![Timestamp::MAX; 100_000])),
            ),
        ] {
            let text = entry.text(u64::MAX);
            assert!(parse(text.as_bytes()).is_ok(), "{}: {:?}", text.len(), parse(text.as_bytes()));
        }
    }

    #[test]
    fn invalid_lines_report_the_expected_content() {
        let of = |entry: &str| format!("{{\"line\":2,\"entry\":{entry}}}");
        let samples = |precision: &str, counter: &str, counts: &str| {
            of(&format!(
                "{{\"samples\":{{\"precision\":{precision},\"counter\":{counter},\"counts\":{counts}}}}}"
            ))
        };
        let visitors = |registers: &str| {
            let text = "{\"visitors\":{\"precision\":\"60\",\"counter\":\"a\",\"start\":0,\"registers\":\"";
            of(&format!("{text}{registers}\"}}}}"))
        };
        let bins = |bins: &str| {
            of(&format!(
                "{{\"bins\":{{\"precision\":\"60\",\"counter\":\"a\",\"start\":0,\"bins\":[{bins}]}}}}"
            ))
        };
        let begin = |format: &str, version: u32, id: &str| {
            of(&format!(
                "{{\"dump\":{{\"format\":\"{format}\",\"version\":{version},\"id\":\"{id}\",\"time\":0,\"counts\":[],\"visitors\":[]}}}}"
            ))
        };
        let (id, many) = ("0".repeat(32), format!("[{}[0,1]]", "[0,1],".repeat(MAX_LINE_SAMPLES)));
        for (text, expected) in [
            (String::new(), "a line of a dump (EOF"),
            ("127.0.0.1 - - [10/Oct/2000]".to_owned(), "a line of a dump (invalid type"),
            ("[".repeat(10_000), "a line of a dump"),
            (" ".repeat(MAX_LINE_BYTES + 1), "at most 65536 bytes"),
            ("{\"line\":2}".to_owned(), "missing field `entry`"),
            ("{\"line\":-1,\"entry\":{}}".to_owned(), "at byte 10"),
            (of("{\"end\":{}}"), "missing field `counters`"),
            (of("{\"more\":{}}"), "unknown variant `more`"),
            (samples("\"60\"", "\"a\"", "[[0,1]],\"x\":1"), "unknown field `x`"),
            (samples("\"0\"", "\"a\"", "[[0,1]]"), "a precision"),
            (samples("60", "\"a\"", "[[0,1]]"), "invalid type"),
            (samples("\"60\"", "\"\"", "[[0,1]]"), "a counter name"),
            (samples("\"60\"", "\"a\\n\"", "[[0,1]]"), "a counter name"),
            (samples("\"60\"", "\"a\"", "[[1,1]]"), "the start of a bucket of the precision 60"),
            (samples("\"60\"", "\"a\"", "[[18446744073709551600,1]]"), "the start of a bucket"),
            (samples("\"60\"", "\"a\"", "[[0,0]]"), "a count from 1"),
            (samples("\"60\"", "\"a\"", "[[0,9223372036854775808]]"), "a count from 1"),
            (samples("\"60\"", "\"a\"", &many), "at most 500 samples"),
            (visitors("!"), "base64"),
            (visitors("AAAA"), "registers (not a HyperLogLog"),
            (bins("[\"x1\",1]"), "a bin, such as"),
            (bins("[\"t96\",1]"), "a bin, such as"),
            (bins("[\"t1\",0]"), "a count from 1"),
            (bins("[\"t1\",1],[\"t1\",1]"), "each bin once"),
            (bins(&vec!["[\"t1\",1]"; 61].join(",")), "at most 60 bins"),
            (begin("other", 1, &id), "the format access-counter in version 1 to 4, not other"),
            (begin("access-counter", 5, &id), "in version 5; the dump is newer than this program: update this program"),
            (
                "{\"line\":1,\"entry\":{\"dump\":{\"format\":\"access-counter\",\"version\":5,\"more\":1}},\"more\":1}".to_owned(),
                "the dump is newer than this program",
            ),
            (begin("access-counter", 0, &id), "the dump is older than this program"),
            (begin("access-counter", 1, "x"), "an id of 32"),
        ] {
            let error = parse(text.as_bytes()).expect_err("not a line of a dump");
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
