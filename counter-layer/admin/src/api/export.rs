//! Export of samples as a file, which is streamed while the store is being read.

use std::fmt::Write;
use std::ops;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use counter_core::visits::Extent;
use counter_core::{CounterName, Error, ErrorKind, Precision, Stats, Timestamp};
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{AnyCounters, CountPrecision, FileFormat, Format, Range, RequestParts};
use super::read;
use super::route::{ResponseKind, Route};
use crate::problem::{Problem, warn};
use crate::text::csv;

/// A line of an NDJSON export, or the columns of a CSV export. If a bucket can't be read, the line will not
/// have a count. If the whole counter can't be read, it also will not have a start.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line<'a> {
    counter: &'a str,
    precision: u32,
    start: Option<u64>,
    count: Option<u64>,
}

/// The pages of counters that still need to be read.
struct Pages {
    stats: Stats,
    precision: Precision,
    range: ops::Range<Timestamp>,
    format: Format,
    remaining: Remaining,
    /// Counters per page.
    size: usize,
}

enum Remaining {
    Named(Vec<CounterName>),
    KnownAfter(Option<CounterName>),
    Done,
}

/// Maximum number of samples in memory.
const MAX_SAMPLES: u64 = 20_000;
const MAX_COUNTERS: u64 = 100;

pub(crate) fn route(stats: &Stats) -> Route {
    let summary = "Samples of all or selected counters, as a file";
    Route::get("/api/export", summary, stats.clone(), export)
        .response("200", ResponseKind::File)
        .schema::<Line<'_>>()
        .details("At most 10,000 buckets per counter.")
}

async fn export(
    request: RequestParts<Stats, (AnyCounters, CountPrecision, Range, FileFormat)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, parameters, .. } = request;
    let (AnyCounters(named), CountPrecision(retention), range, FileFormat(format)) = parameters;
    let (precision, max) = (retention.precision, Stats::MAX_BUCKETS);
    let range = range.buckets(retention, max, Timestamp::now())?.range;
    let seconds = range.end.as_unix() - range.start.as_unix();
    let buckets = seconds.div_ceil(precision.as_seconds().into());
    if buckets > max {
        let error = Error::new(ErrorKind::TooManyBuckets { requested: buckets, max });
        return Err(Problem::of(&error, &stats));
    }
    read::require_known(&stats, &named).await?;
    read::check_precision(&stats, &named, precision)?;
    let size = usize::try_from((MAX_SAMPLES / buckets).clamp(1, MAX_COUNTERS)).unwrap_or(1);
    let remaining = if named.is_empty() { Remaining::KnownAfter(None) } else { Remaining::Named(named) };
    let mut pages = Pages { stats, precision, range, format, remaining, size };
    // Read the initial page now, so that a failure can still change the response status.
    let first = pages.next().await.map_err(|error| Problem::of(&error, &pages.stats))?;
    let (kind, ending, head) = match format {
        Format::Csv => {
            ("text/csv; charset=utf-8; header=present", "csv", "counter,precision,start,count\r\n")
        }
        Format::Ndjson => ("application/x-ndjson", "ndjson", ""),
    };
    let start = [Ok(format!("{head}{}", first.unwrap_or_default()))];
    let rest = stream::try_unfold(pages, async |mut pages| {
        let broke_off = "an export failed";
        let page = pages.next().await.inspect_err(|error| warn(&pages.stats, error, broke_off))?;
        Ok::<_, Error>(page.map(|page| (page, pages)))
    });
    let disposition = format!("attachment; filename=\"counters-{}.{ending}\"", precision.as_seconds());
    let headers = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, disposition)];
    Ok((headers, Body::from_stream(stream::iter(start).chain(rest))).into_response())
}

impl Pages {
    /// Returns the lines of the next counters with samples, or `None` at the end.
    async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            let (counters, remaining) = match &mut self.remaining {
                Remaining::Done => return Ok(None),
                Remaining::Named(named) => {
                    let rest = named.split_off(named.len().min(self.size));
                    let remaining = if rest.is_empty() { Remaining::Done } else { Remaining::Named(rest) };
                    (std::mem::take(named), remaining)
                }
                Remaining::KnownAfter(after) => {
                    let page = self.stats.list_counters(after.as_ref(), self.size).await?;
                    // A file can't state that counters are missing.
                    if let Some(missing) = page.unreadable.into_iter().find(|one| one.extent.is_unknown()) {
                        return Err(missing.into());
                    }
                    let remaining =
                        page.next.map_or(Remaining::Done, |next| Remaining::KnownAfter(Some(next)));
                    (page.counters.into_iter().map(|(name, _)| name).collect(), remaining)
                }
            };
            let all = self.stats.series_many(&counters, self.precision, self.range.clone()).await?;
            self.remaining = remaining;
            let mut text = String::new();
            for (counter, series) in counters.iter().zip(all) {
                let line = |start: Option<Timestamp>, count| {
                    let (precision, start) = (self.precision.as_seconds(), start.map(Timestamp::as_unix));
                    Line { counter, precision, start, count }
                };
                let Ok(series) = series else {
                    self.format.write(&mut text, &line(None, None));
                    continue;
                };
                let part = series.unreadable.as_ref().filter(|unreadable| unreadable.extent == Extent::Part);
                if let Some(part) = part {
                    return Err(part.clone().into());
                }
                let read = series.samples.iter().map(|sample| (sample.start, Some(sample.count)));
                let unknown = series.unreadable.iter().flat_map(|unreadable| unreadable.extent.buckets());
                let mut all: Vec<_> = read.chain(unknown.map(|start| (*start, None))).collect();
                all.sort_unstable_by_key(|(start, _)| *start);
                for (start, count) in all {
                    self.format.write(&mut text, &line(Some(start), count));
                }
            }
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
    }
}

impl Format {
    fn write(self, text: &mut String, line: &Line<'_>) {
        let Line { counter, precision, start, count } = line;
        let written = match self {
            Self::Csv => {
                let (counter, start, count) = (csv::name(counter), csv::number(*start), csv::number(*count));
                write!(text, "{counter},{precision},{start},{count}\r\n")
            }
            Self::Ndjson => {
                let json = serde_json::to_string(line).expect("lines can be serialized");
                writeln!(text, "{json}")
            }
        };
        written.expect("writing to a string never fails");
    }
}
