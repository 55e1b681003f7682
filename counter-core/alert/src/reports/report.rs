use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use counter_core::visits::{Coverage, Extent, Stats, Unreadable};
use counter_core::{CounterName, Error, ErrorKind, Precision, Timestamp};
use serde::{Deserialize, Serialize};

use super::schedule::{Period, ReportSchedule};
use crate::alert::Alert;
use crate::isolated::Isolated;
use crate::rules::condition::Grouped;

/// A report on a day or a week: hits, visitors, pages, labels and changes.
///
/// `Display` writes text for a chat, and [`html`](Self::html) a page for a mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The report id, which stays the same if the report is delivered again.
    pub id: String,
    /// The title: the site, and the day or the start of the week.
    pub title: String,
    /// The start of the reported time, in Unix seconds.
    pub from: u64,
    /// The end of the reported time, in Unix seconds.
    pub to: u64,
    /// The hits of the site, or `None` if they can't be read.
    pub hits: Option<Change>,
    /// The estimated unique visitors of the site, if recorded.
    pub visitors: Option<Change>,
    /// The configured shares of the site hits.
    pub shares: Vec<Row>,
    /// The pages with the highest hits.
    pub pages: Vec<Row>,
    /// The pages with the largest increase in hits, relative to size.
    pub risen: Vec<Row>,
    /// The pages with the largest decrease in hits, relative to size.
    pub fallen: Vec<Row>,
    /// The most frequent values, by label.
    pub labels: Vec<(String, Vec<(String, u64)>)>,
    /// The alerts raised in this time.
    pub alerts: Vec<Alert>,
    /// The keys and parts that can't be read and are omitted, up to 100.
    pub unread: Vec<String>,
}

/// A number, and the number in the preceding period of the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// The number in this period.
    pub now: u64,
    /// The number in the preceding period, if it is known and was counted in the [whole](Coverage::Complete) period.
    pub before: Option<u64>,
}

/// A row in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// The name of a page or share.
    pub name: String,
    /// The hits of the page or share.
    pub hits: Change,
}

/// The maximum number of pages to list with an increase, and the maximum number to list with a decrease.
const MAX_CHANGED_PAGES: usize = 5;

/// The maximum number of unreadable keys and parts to list.
const MAX_UNREAD: usize = 100;

impl Report {
    /// Reads a report. If a part can't be read, it will be omitted and listed in [`unread`](Self::unread).
    ///
    /// # Errors
    /// Fails if the store can't be reached.
    pub(crate) async fn read(
        stats: &Stats,
        schedule: &ReportSchedule,
        period: &Period,
        alerts: Vec<Alert>,
    ) -> Result<Self, Error> {
        let Period { range, before, retention, .. } = period;
        let (precision, mut unread) = (retention.precision, Unread::default());
        let mut now = pages(stats, schedule, precision, range, &mut unread).await?;
        let mut earlier = pages(stats, schedule, precision, before, &mut unread).await?;
        // We can't compare a page that is only readable in either period.
        for pages in [&mut now, &mut earlier] {
            pages.retain(|(name, _)| !unread.has_counter(name));
        }

        let mut requested = vec![schedule.site.clone()];
        requested.extend(schedule.shares.iter().flat_map(|(_, counters)| counters).cloned());
        let totals: HashMap<_, _> =
            totals(stats, &requested, period, &mut unread).await?.into_iter().collect();
        let of = |name: &CounterName| totals.get(name).copied();
        let is_counted = counted(stats, std::slice::from_ref(&schedule.site), period, &mut unread).await?;
        let is_counted = is_counted.first() == Some(&true);
        let hits = of(&schedule.site).map(|hits| hits.compared_if(is_counted));
        let has_before = is_counted && hits.map_or(!earlier.is_empty(), |hits| hits.before.is_some());
        let shares = schedule.shares.iter().filter_map(|(name, counters)| {
            let zero = Change { now: 0, before: has_before.then_some(0) };
            let hits = counters.iter().try_fold(zero, |sum, counter| Some(sum.and(of(counter)?)))?;
            Some(Row { name: name.clone(), hits })
        });
        let shares = shares.collect();

        // A page without hits in the preceding period is new.
        let names: Vec<_> = earlier.iter().map(|(name, _)| name.clone()).collect();
        let counted = counted(stats, &names, period, &mut unread).await?;
        let began: HashSet<_> =
            names.iter().zip(counted).filter(|(_, counted)| !counted).map(|(name, _)| name).collect();
        let is_known = |name: &CounterName| has_before && !began.contains(name);
        let changes = changes(&now, &earlier, is_known);
        let rows = |retention: &dyn Fn(&Row) -> bool| -> Vec<Row> {
            changes.iter().filter(|row| retention(row)).take(MAX_CHANGED_PAGES).cloned().collect()
        };
        let (risen, fallen) = (rows(&|row| row.hits.by() > 0), rows(&|row| row.hits.by() < 0));
        let mut pages = changes;
        pages.sort_by_key(|row| Reverse(row.hits.now));
        pages.truncate(schedule.places.min(now.len()));

        let labels = labels(stats, schedule, period, &mut unread).await?;
        let visitors = unread.part("visitors", visitors(stats, schedule, period).await)?.flatten();
        Ok(Self {
            id: format!("{}:{}", schedule.name(), range.end),
            title: schedule.title_of(period),
            from: range.start.as_unix(),
            to: range.end.as_unix(),
            hits,
            visitors: visitors.map(|visitors| visitors.compared_if(is_counted).at_most(hits)),
            shares,
            pages,
            risen,
            fallen,
            labels,
            alerts,
            unread: unread.0,
        })
    }
}

/// The parts of a report that can't be read.
#[derive(Debug, Default)]
struct Unread(Vec<String>);

impl Unread {
    /// Returns a part, or records it and returns `None` if it can't be read.
    ///
    /// # Errors
    /// Fails if the store or a site can't be reached, because then we can read the part later.
    fn part<T>(&mut self, name: &str, read: Result<T, Error>) -> Result<Option<T>, Error> {
        let error = match read {
            Ok(read) => return Ok(Some(read)),
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => error,
        };
        self.record(match error.kind() {
            ErrorKind::Malformed { key } => key.clone(),
            _ => format!("{name}: {error}"),
        });
        Ok(None)
    }

    /// Records keys that can't be read.
    ///
    /// # Errors
    /// Fails if a site is missing: the counts are too low, and must not be compared with those of another period.
    fn keys(&mut self, unreadable: &[Unreadable]) -> Result<(), Error> {
        if let Some(missing) = unreadable.iter().find(|unreadable| unreadable.extent == Extent::Part) {
            return Err(missing.clone().into());
        }
        unreadable.iter().for_each(|unreadable| self.record(unreadable.key.clone()));
        Ok(())
    }

    fn record(&mut self, name: String) {
        if self.0.len() < MAX_UNREAD && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// Returns `true` if an unreadable key belongs to the counter with this name.
    fn has_counter(&self, name: &str) -> bool {
        self.0.iter().any(|key| key.strip_suffix(name).is_some_and(|rest| rest.ends_with([':', ' '])))
    }
}

/// Returns `true` if the store, or a site, can't be reached now.
fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Incomplete { .. })
}

/// Returns the readable pages with their hits in a range.
async fn pages(
    stats: &Stats,
    schedule: &ReportSchedule,
    precision: Precision,
    range: &Range<Timestamp>,
    unread: &mut Unread,
) -> Result<Vec<(CounterName, u64)>, Error> {
    let ranked = stats.top(precision, range.clone(), usize::MAX, |name| (schedule.is_page)(name)).await;
    let ranking = unread.part("pages", ranked)?.unwrap_or_default();
    unread.keys(&ranking.unreadable)?;
    Ok(ranking.counters)
}

/// Returns the readable counters with their hits in this and the preceding period.
async fn totals(
    stats: &Stats,
    counters: &[CounterName],
    period: &Period,
    unread: &mut Unread,
) -> Result<Vec<(CounterName, Change)>, Error> {
    let range = period.before.start..period.range.end;
    let series = stats.series_many(counters, period.retention.precision, range).await;
    let mut totals = Vec::new();
    for (name, series) in counters.iter().zip(unread.part("hits", series)?.unwrap_or_default()) {
        let Some(series) = unread.part(name, series.map_err(Error::from))? else { continue };
        unread.keys(series.unreadable.as_slice())?;
        let sum = |range: &Range<Timestamp>| {
            let samples = series.samples.iter().filter(|of| range.contains(&of.start));
            let sum = samples.map(|of| of.count).fold(0, u64::saturating_add);
            let mut starts = series.precision.starts(range.clone());
            (!starts.any(|start| series.is_unknown(start))).then_some(sum)
        };
        if let Some(now) = sum(&period.range) {
            totals.push((name.clone(), Change { now, before: sum(&period.before).filter(|sum| *sum > 0) }));
        }
    }
    Ok(totals)
}

/// Returns for each counter whether it was counted in the whole preceding period.
async fn counted(
    stats: &Stats,
    counters: &[CounterName],
    period: &Period,
    unread: &mut Unread,
) -> Result<Vec<bool>, Error> {
    let coverage = stats.coverage(counters, period.before.clone(), period.range.end).await;
    let coverage = unread.part("hits", coverage)?.unwrap_or_else(|| vec![Coverage::Unknown; counters.len()]);
    Ok(coverage.into_iter().map(|coverage| coverage == Coverage::Complete).collect())
}

/// Returns the pages of both periods, sorted by change relative to size. `is_known` returns `false` if the hits of the
/// preceding period are unknown, or only a part of them was counted.
fn changes(
    now: &[(CounterName, u64)],
    earlier: &[(CounterName, u64)],
    is_known: impl Fn(&CounterName) -> bool,
) -> Vec<Row> {
    let (of_now, of_earlier): (HashMap<_, _>, HashMap<_, _>) = (
        now.iter().map(|(name, hits)| (name, *hits)).collect(),
        earlier.iter().map(|(name, hits)| (name, *hits)).collect(),
    );
    let gone = earlier.iter().filter(|(name, _)| !of_now.contains_key(name));
    let row = |(name, _): &(CounterName, u64)| {
        let hits = |of: &HashMap<&CounterName, u64>| of.get(name).copied().unwrap_or(0);
        Row {
            name: name.to_string(),
            hits: Change { now: hits(&of_now), before: is_known(name).then(|| hits(&of_earlier)) },
        }
    };
    let mut rows: Vec<_> = now.iter().chain(gone).map(row).collect();
    rows.sort_by(|a, b| {
        b.hits.significance().total_cmp(&a.hits.significance()).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

/// Reads the most frequent values of each label.
async fn labels(
    stats: &Stats,
    schedule: &ReportSchedule,
    period: &Period,
    unread: &mut Unread,
) -> Result<Vec<(String, Vec<(String, u64)>)>, Error> {
    let Period { range, retention, .. } = period;
    let rankings = stats.label_rankings(&[], retention.precision, range.clone(), schedule.places).await;
    let mut labels = Vec::new();
    for (label, ranking) in unread.part("labels", rankings)?.unwrap_or_default() {
        let Some(ranking) = unread.part(&format!("label {label}"), ranking)? else { continue };
        unread.keys(&ranking.unreadable)?;
        if ranking.is_partial {
            unread.record(format!("the rarest values of the label {label}"));
        }
        labels.push((label, ranking.values));
    }
    Ok(labels)
}

async fn visitors(
    stats: &Stats,
    schedule: &ReportSchedule,
    period: &Period,
) -> Result<Option<Change>, Error> {
    let fits = |range: &Range<Timestamp>, precision: counter_core::Precision| {
        [range.start, range.end].iter().all(|at| precision.bucket(*at).start == *at)
    };
    let retention: Vec<_> = stats.grid().visitors.iter().collect();
    let oldest = |retention: &counter_core::time::Retention| retention.oldest(period.range.end);
    let of = |range: &Range<Timestamp>| {
        let found = retention
            .iter()
            .rev()
            .find(|retention| fits(range, retention.precision) && oldest(retention) <= range.start);
        found.map(|retention| (retention.precision, range.clone()))
    };
    let site = std::slice::from_ref(&schedule.site);
    let Some((precision, range)) = of(&period.range) else { return Ok(None) };
    let now = stats.uniques(site, precision, range).await?.visitors;
    let before = match of(&period.before) {
        Some((precision, range)) => Some(stats.uniques(site, precision, range).await?.visitors),
        None => None,
    };
    Ok((now > 0).then_some(Change { now, before: before.filter(|before| *before > 0) }))
}

impl Change {
    /// Limits an estimate to the number of hits that it is an estimate for.
    fn at_most(self, hits: Option<Self>) -> Self {
        let before = hits.and_then(|hits| hits.before);
        Self {
            now: hits.map_or(self.now, |hits| self.now.min(hits.now)),
            before: self.before.map(|visitors| before.map_or(visitors, |hits| visitors.min(hits))),
        }
    }

    /// Removes the number in the preceding period if it can't be compared.
    fn compared_if(self, is_counted: bool) -> Self {
        Self { before: self.before.filter(|_| is_counted), ..self }
    }

    fn and(self, other: Self) -> Self {
        let before = self.before.map(|before| before.saturating_add(other.before.unwrap_or(0)));
        Self { now: self.now.saturating_add(other.now), before }
    }

    fn by(self) -> i64 {
        self.before.map_or(0, |before| self.now.cast_signed().saturating_sub(before.cast_signed()))
    }

    /// Returns the difference in standard deviations, assuming that both are counts.
    fn significance(self) -> f64 {
        let before = self.before.unwrap_or(self.now);
        self.now.abs_diff(before) as f64 / (self.now.saturating_add(before).max(1) as f64).sqrt()
    }

    /// Returns the change in percent, rounded, if known.
    pub(crate) fn percent(self) -> Option<f64> {
        let before = self.before.filter(|before| *before > 0)?;
        Some((100.0 * self.by() as f64 / before as f64).round())
    }
}

/// Formats a change like `+12 %`, or as an empty string if it is unknown.
pub(crate) struct Percent(pub(crate) Change);

/// Formats a number of hits or people.
pub(super) fn grouped(hits: u64) -> String {
    Grouped(hits as f64).to_string()
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.percent(), self.0.before) {
            (Some(0.0), _) => f.write_str("±0 %"),
            (Some(percent), _) => write!(f, "{}{} %", if percent > 0.0 { '+' } else { '−' }, percent.abs()),
            (None, Some(_)) => f.write_str("new"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, hits: Change| {
            let line = format!("{:>12}  {}  {}", grouped(hits.now), Isolated(name), Percent(hits));
            writeln!(f, "{}", line.trim_end())
        };
        if let Some(hits) = self.hits {
            line(f, "hits", hits)?;
        }
        if let Some(visitors) = self.visitors {
            line(f, "visitors", visitors)?;
        }
        for row in &self.shares {
            line(f, &row.name, row.hits)?;
        }
        for (title, rows) in [("pages", &self.pages), ("risen", &self.risen), ("fallen", &self.fallen)] {
            if !rows.is_empty() {
                writeln!(f, "\n{title}")?;
                rows.iter().try_for_each(|row| line(f, &row.name, row.hits))?;
            }
        }
        for (label, values) in &self.labels {
            writeln!(f, "\n{label}")?;
            for (value, hits) in values {
                writeln!(f, "{:>12}  {}", grouped(*hits), Isolated(value))?;
            }
        }
        if !self.alerts.is_empty() {
            writeln!(f, "\nalerts")?;
            self.alerts.iter().try_for_each(|alert| writeln!(f, "  {alert}"))?;
        }
        if !self.unread.is_empty() {
            writeln!(f, "\nunreadable")?;
            self.unread.iter().try_for_each(|name| writeln!(f, "  {name}"))?;
        }
        Ok(())
    }
}
