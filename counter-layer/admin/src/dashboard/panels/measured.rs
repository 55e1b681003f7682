//! Response times, sizes and statuses of a counter, if distributions are retained.

use std::ops::Range;

use counter_core::visits::{Distribution, Distributions, Measure};
use counter_core::{Error, Timestamp};
use http::StatusCode;

use crate::dashboard::chart::bands::{self, Bands, QUANTILES};
use crate::dashboard::format::instants;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::format::units;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::plot::sums::Instant;
use crate::dashboard::view::retained::Retained;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The maximum number of statuses in a table.
const MAX_STATUSES: usize = 12;

/// The distributions of the period, with the change from the compared period.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The format name of instants, for the script.
    pub(crate) style: &'static str,
    pub(crate) from: Instant,
    pub(crate) width: String,
    /// True if any data of the compared period is available.
    pub(crate) is_compared: bool,
    /// The error of percentiles.
    pub(crate) error: String,
    /// The times to response headers.
    pub(crate) bands: Option<Bands>,
    pub(crate) rows: Vec<Row>,
    pub(crate) statuses: Vec<Statuses>,
}

/// The percentiles of a measure.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<(String, Option<Change>)>,
    pub(crate) requests: String,
}

/// A table of statuses.
#[derive(Debug)]
pub(crate) struct Statuses {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Status>,
    /// A hint on omitted statuses.
    pub(crate) more: Option<String>,
}

/// A status and the share of requests.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) number: String,
    pub(crate) name: &'static str,
    pub(crate) requests: String,
    pub(crate) share: String,
    pub(crate) before: Option<String>,
}

/// Reads the distributions of the first counter of a view. Returns `None` if the distributions are not retained, or if
/// they are empty.
pub(crate) async fn read(
    period: &PeriodReader<'_>,
    view: &View,
    now: Timestamp,
) -> Result<Option<Measured>, Error> {
    let Some(found) = period.page_distributions().await? else { return Ok(None) };
    let Retained { precision, range, .. } = &found.retained;
    let merged = |all: &[Distributions]| all.iter().map(Distributions::merged).collect::<Vec<_>>();
    let (now_merged, before_merged) = (merged(&found.all), merged(&found.compared));
    // A site that is away may have other times.
    if now_merged.iter().all(|of| of.count() == 0) || !period.reader.is_complete() {
        return Ok(None);
    }
    let pairs = || now_merged.iter().enumerate().map(|(place, of)| (of, before_merged.get(place)));
    let style = instants::Style::of(*precision).with_date();
    let zone = &view.site.zone;
    let style = style.of_years([zone.local(range.start)], zone.local(now));
    let is_compared = before_merged.iter().any(|of| of.count() > 0);
    Ok(Some(Measured {
        style: style.name(),
        from: Instant::of(range.start, zone, style),
        width: units::unit(u64::from(precision.as_seconds())),
        is_compared,
        error: numbers::percentile_error(),
        bands: found
            .all
            .iter()
            .find(|of| of.measure == Measure::Time)
            .and_then(|of| bands(of, range, view, now)),
        rows: pairs().filter_map(|(of, before)| Row::of(of, before)).collect(),
        statuses: pairs().filter_map(|(of, before)| Statuses::of(of, before)).collect(),
    }))
}

fn bands(of: &Distributions, range: &Range<Timestamp>, view: &View, now: Timestamp) -> Option<Bands> {
    let starts: Vec<_> = of.precision.starts(range.clone()).collect();
    let values = |start: &Timestamp| {
        let place = of.buckets.binary_search_by_key(start, |(start, _)| *start).ok()?;
        let bucket = &of.buckets[place].1;
        let mut values = [0.0; QUANTILES.len()];
        for (value, (q, _)) in values.iter_mut().zip(QUANTILES) {
            *value = bucket.quantile(q)?;
        }
        Some((values, bucket.count()))
    };
    let buckets: Vec<_> = starts.iter().map(values).collect();
    let is_empty = buckets.iter().all(Option::is_none);
    (!is_empty).then(|| bands::bands(&starts, of.precision, &buckets, &view.site.zone, now))
}

impl Row {
    fn of(of: &Distribution, before: Option<&Distribution>) -> Option<Self> {
        let (name, write): (_, fn(f64) -> String) = match of.measure() {
            Measure::Time => ("Time to response headers", units::seconds),
            Measure::Body => ("Total response time", units::seconds),
            Measure::Size => ("Response size", units::bytes),
            _ => return None,
        };
        let value = |(q, _): (f64, &str)| {
            let value = of.quantile(q)?;
            let before = before.and_then(|before| before.quantile(q));
            Some((write(value), before.and_then(|before| numbers::shift(value, before))))
        };
        let values = QUANTILES.into_iter().map(value).collect::<Option<_>>()?;
        Some(Self { name, values, requests: digits::grouped(of.count()) })
    }
}

impl Statuses {
    fn of(of: &Distribution, before: Option<&Distribution>) -> Option<Self> {
        let (id, title) = match of.measure() {
            Measure::Status => ("statuses", "Statuses"),
            Measure::Grpc => ("grpc-statuses", "gRPC statuses"),
            _ => return None,
        };
        let (count, previous) = (of.count(), before.filter(|before| before.count() > 0));
        let share_before = |before: &Distribution, number: f64| {
            let previous_bin = before.bins().find(|(bin, _)| bin.value().total_cmp(&number).is_eq());
            numbers::share(previous_bin.map_or(0, |(_, count)| count), before.count())
        };
        let mut all: Vec<_> = of.bins().collect();
        // The sort is stable, so equal counts are sorted by number.
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let more = all.len().saturating_sub(MAX_STATUSES);
        let row = |(bin, requests): &(counter_core::visits::Bin, u64)| Status {
            number: bin.index().to_string(),
            name: match of.measure() {
                Measure::Status => reason(bin.index()),
                _ => "",
            },
            requests: digits::grouped(*requests),
            share: numbers::share(*requests, count).unwrap_or_default(),
            before: previous.and_then(|before| share_before(before, bin.value())),
        };
        let rows = all.iter().take(MAX_STATUSES).map(row).collect();
        let more = (more > 0).then(|| format!("{more} more in api/statuses."));
        (count > 0).then_some(Self { id, title, rows, more })
    }
}

fn reason(status: i16) -> &'static str {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.and_then(|status| status.canonical_reason()).unwrap_or_default()
}
