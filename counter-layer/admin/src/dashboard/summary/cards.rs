//! The numbers at the top of a page.

use counter_core::visits::{Coverage, Now, Requests, Uniques};
use counter_core::{CounterName, Error, Timestamp};
use futures_util::future::{try_join, try_join3, try_join4};

use crate::dashboard::format::instants;
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::format::units;
use crate::dashboard::period_reader::{Before, PeriodPeople, PeriodReader};
use crate::dashboard::plot::percentiles;
use crate::dashboard::reader::{self, Reader};
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::period::length;
use crate::dashboard::view::view::View;
use crate::text::digits;
use counter_layer::internal::{AGENTS, ERRORS, HITS, STATUSES};

/// The numbers at the top of a page.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) cards: Vec<Card>,
    /// The compared period, as in `vs. previous period`.
    pub(crate) compared: Option<&'static str>,
    /// The hits per second in the last minute, if they are kept.
    pub(crate) rate: Option<String>,
    /// The hits of the period, which are not a card if there are views.
    pub(crate) hits: Option<Card>,
}

/// A number at the top, which links to a chart of it.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) value: String,
    pub(crate) change: Option<Change>,
    pub(crate) note: Option<String>,
    /// The error of the value, and how it is counted.
    pub(crate) tooltip: Option<String>,
    pub(crate) address: String,
    /// What the chart of this card shows, or `None` if it has none.
    chart: Option<(Vec<CounterName>, Metric)>,
    /// True if the chart shows it.
    pub(crate) is_chosen: bool,
}

/// Determines which numbers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The numbers that change with each hit.
    Live,
    /// All numbers. Visitors and percentiles are more expensive for the store.
    Page,
}

impl Summary {
    /// Reads the summary of the site.
    pub(crate) async fn of_site(
        period: &PeriodReader<'_>,
        view: &View,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let names: Vec<_> = std::iter::once(HITS)
            .chain(STATUSES)
            .chain(AGENTS)
            .filter_map(|name| CounterName::new(name).ok())
            .collect();
        let ((totals, before), latest, views, (people, time)) = try_join4(
            try_join(period.totals(&names), period.before(&names)),
            latest(period.reader, &names[0], now),
            Card::views(period, view, &names[0]),
            slow_cards(period, view, &names[0], extent),
        )
        .await?;
        let (hits_before, before): (_, Vec<_>) = (before[0], before.into_iter().map(Before::total).collect());
        let share = |card: Card, parts: &[&str], wholes: &[&str]| {
            let of = |totals: &[Option<u64>]| part(period, &names, totals, parts, wholes);
            let known = of(&totals);
            let is_recorded = totals[0] == Some(0) || known.is_none_or(|(_, whole)| whole > 0);
            Card {
                value: known
                    .and_then(|(part, whole)| numbers::share(part, whole))
                    .unwrap_or_else(numbers::unknown),
                change: known.zip(of(&before)).and_then(|(now, before)| numbers::points(now, before)),
                note: (!is_recorded).then(|| "Not recorded".to_owned()),
                ..card
            }
        };
        let rate = latest.map(|(hits, length)| format!("{} hits/s", numbers::rate(hits, length)));
        let latest = latest
            .map(|(hits, length)| format!("{} in the last {}", digits::grouped(hits), units::unit(length)));
        let hits = Card {
            note: latest.filter(|_| period.timeline.buckets.end > now),
            ..Card::hits(view, &names[0], totals[0], hits_before)
        };
        let shown = [&ERRORS[..], &["status:4xx"]].concat();
        let errors = Card::of(view, "errors", "Errors", &shown, Metric::Share);
        let client_errors = part(period, &names, &totals, &["status:4xx"], &STATUSES);
        let client_errors = client_errors.and_then(|(part, whole)| numbers::share(part, whole));
        let mut errors = share(errors, &ERRORS, &STATUSES);
        errors.note = errors.note.or_else(|| client_errors.map(|share| format!("4xx: {share}")));
        let bots = Card::of(view, "bots", "Bots", &["agent:bot"], Metric::Share);
        let bots = share(bots, &["agent:bot"], &AGENTS);
        let people = people.map(|people| Card::people(period, view, &names[0], &people, totals[0]));
        let (views, hits) = match views {
            Some(views) => (views, Some(hits)),
            None => (hits, None),
        };
        let cards = [people, Some(views), Some(errors), time, Some(bots)];
        Ok(Self { rate, hits, ..Self::of(period, view, cards) })
    }

    /// Reads the summary of a counter.
    pub(crate) async fn of_counter(
        period: &PeriodReader<'_>,
        view: &View,
        extent: Extent,
    ) -> Result<Self, Error> {
        let counter = &view.chart.counters[0];
        let (own, counted) = (std::slice::from_ref(counter), Metric::counted(counter));
        let whole = async {
            let hits = CounterName::new(HITS).ok();
            let whole = match counted {
                Metric::Views if !period.counts_views().await? => None,
                Metric::Views => hits.and_then(|hits| hits.views()),
                _ => hits,
            };
            Ok(period.totals(whole.as_slice()).await?.pop())
        };
        let ((totals, before, whole), lifetimes, views, (people, time)) = try_join4(
            try_join3(period.totals(own), period.before(own), whole),
            period.reader.lifetimes(own),
            Card::views(period, view, counter),
            slow_cards(period, view, counter, extent),
        )
        .await?;
        let card = |id, title, value: Option<String>| Card {
            value: value.unwrap_or_else(numbers::unknown),
            chart: None,
            ..Card::of(view, id, title, &[counter], Metric::Hits)
        };
        let hits = Card { title: counted.title(), ..Card::hits(view, counter, totals[0], before[0]) };
        let [of_all, all_time] = match counted {
            Metric::Views => ["Share of all views", "Views, all time"],
            _ => ["Share of all hits", "Hits, all time"],
        };
        let share = whole
            .map(|whole| totals[0].zip(whole).and_then(|(part, whole)| period.reader.share(part, whole)));
        let share = share.map(|share| card("part", of_all, share));
        let lifetime = Some(card("lifetime", all_time, lifetimes[0].map(digits::grouped)));
        // Facets count only hits, and so do most labels.
        let is_known = |people: &PeriodPeople| people.all.as_ref().is_some_and(|all| all[0].is_some());
        let people =
            people.filter(|of| Metric::People.has(counter) && (counter.label().is_none() || is_known(of)));
        let people = people.map(|people| Card::people(period, view, counter, &people, totals[0]));
        let [share, lifetime] = [share, lifetime].map(|card| card.filter(|_| !view.is_shared));
        let cards = match views {
            Some(views) => [people, Some(views), Some(hits), time, lifetime],
            None => [people, Some(hits), share, time, lifetime],
        };
        Ok(Self::of(period, view, cards))
    }
}

impl Summary {
    fn of(period: &PeriodReader<'_>, view: &View, cards: [Option<Card>; 5]) -> Self {
        let is_compared = period.timeline.compared.is_some();
        Self {
            cards: cards.into_iter().flatten().collect(),
            compared: is_compared.then_some(view.chart.compare.title()),
            rate: None,
            hits: None,
        }
    }

    /// Marks the card that the chart shows.
    pub(crate) fn choose(&mut self, view: &View, metric: Metric) {
        for card in self.cards.iter_mut().chain(&mut self.hits) {
            let chart = card.chart.as_ref();
            card.is_chosen =
                chart.is_some_and(|(counters, of)| *counters == view.chart.counters && *of == metric);
        }
    }
}

impl Card {
    /// Returns the HTML element.
    pub(crate) const fn element(&self) -> &'static str {
        if self.address.is_empty() { "div" } else { "a" }
    }

    /// Returns a card that shows these counters in the chart.
    fn of(view: &View, id: &'static str, title: &'static str, counters: &[&str], metric: Metric) -> Self {
        let counters: Vec<_> = counters.iter().filter_map(|name| CounterName::new(name).ok()).collect();
        let address = view.address_with(|view| {
            (view.chart.counters, view.chart.metric) = (counters.clone(), Some(metric));
            view.chart.forecast &= metric.has_forecast();
        });
        let (value, change, note, tooltip) = (numbers::unknown(), None, None, None);
        let chart = Some((counters, metric));
        Self { id, title, value, change, note, tooltip, address, chart, is_chosen: false }
    }

    pub(super) fn hits(view: &View, counter: &CounterName, total: Option<u64>, before: Before) -> Self {
        Self {
            value: total.map_or_else(numbers::unknown, digits::grouped),
            change: before.with(total).change_of(counter),
            ..Self::of(view, "total", "Hits", &[counter], Metric::Hits)
        }
    }

    /// Shows the people of a counter, which are an estimate for these hits.
    pub(super) fn people(
        period: &PeriodReader<'_>,
        view: &View,
        counter: &CounterName,
        people: &PeriodPeople,
        hits: Option<u64>,
    ) -> Self {
        let uniques = people.all.as_ref().and_then(|all| all[0]);
        let shown = uniques.map(|uniques| digits::grouped(period.at_most(uniques.visitors, hits)));
        let start = period.timeline.buckets.range().start;
        let note = match (&people.all, people.coverage) {
            (None, _) => Some("Not kept for this period".to_owned()),
            (_, Coverage::Since(first)) if first > start => {
                Some(format!("Since {}", instants::day(period.timeline.calendar.local(first))))
            }
            _ => uniques.filter(|uniques| uniques.is_upper_bound).map(|_| "At most".to_owned()),
        };
        Self {
            value: shown.unwrap_or_else(numbers::unknown),
            change: people.compared[0].change(),
            note,
            tooltip: uniques.map(|uniques| tooltip(period, view, uniques)),
            ..Self::of(view, "people", "People", &[counter], Metric::People)
        }
    }

    /// Reads the views of a counter. Returns `None` if the site does not count views, or they are not known for this period.
    async fn views(
        period: &PeriodReader<'_>,
        view: &View,
        counter: &CounterName,
    ) -> Result<Option<Self>, Error> {
        let views = counter.views().filter(|_| Metric::Views.has(counter)).map(|views| [views]);
        let Some(views) = views else { return Ok(None) };
        if !period.counts_views().await? {
            return Ok(None);
        }
        let (totals, before) = try_join(period.totals(&views), period.before(&views)).await?;
        Ok(Some(Self {
            value: totals[0].map_or_else(numbers::unknown, digits::grouped),
            change: before[0].with(totals[0]).change_of(counter),
            ..Self::of(view, "views", "Views", &[counter], Metric::Views)
        }))
    }
}

/// Returns the sum of some counters and that of the counters that they are a part of, if all of them are known.
pub(super) fn part(
    period: &PeriodReader<'_>,
    names: &[CounterName],
    totals: &[Option<u64>],
    parts: &[&str],
    wholes: &[&str],
) -> Option<(u64, u64)> {
    let sum = |requested: &[&str]| {
        let mut all = names.iter().zip(totals).filter(|(name, _)| requested.contains(&&***name));
        all.try_fold(0_u64, |sum, (_, total)| Some(sum.saturating_add((*total)?)))
    };
    // A site that is away may have other shares.
    sum(parts).zip(sum(wholes)).filter(|_| period.reader.is_complete())
}

/// Reads the cards of people and of response times.
async fn slow_cards(
    period: &PeriodReader<'_>,
    view: &View,
    counter: &CounterName,
    extent: Extent,
) -> Result<(Option<PeriodPeople>, Option<Card>), Error> {
    if extent == Extent::Live {
        return Ok((None, None));
    }
    let (people, times) =
        try_join(period.people(std::slice::from_ref(counter)), period.times(counter)).await?;
    let times = times.filter(|_| Metric::Time.has(counter));
    let is_complete = period.reader.is_complete();
    let time = times.map(|times| percentiles::percentile(&times)).map(|(value, change)| {
        let is_recorded = value.is_some();
        let (value, change) = (value.filter(|_| is_complete), change.filter(|_| is_complete));
        let card = Card::of(view, "p90", "Slow (p90)", &[counter], Metric::Time);
        let (address, chart) = match is_recorded && percentiles::can_be_charted(period) {
            true => (card.address, card.chart),
            false if view.is_shared => (String::new(), None),
            false => (format!("{}#measured-title", view.counter(counter)), None),
        };
        Card {
            note: (!is_recorded).then(|| "Not recorded".to_owned()),
            value: value.map_or_else(numbers::unknown, units::seconds),
            change,
            address,
            chart,
            ..card
        }
    });
    Ok((Some(people), time))
}

/// Describes how visitors are counted.
fn tooltip(period: &PeriodReader<'_>, view: &View, uniques: Uniques) -> String {
    let mut words = format!("± {:.1} %.", uniques.standard_error * 100.0);
    if period.is_wider() {
        words += " Includes an hour of the day before or after, because the hours of this day are not kept any more.";
    } else if uniques.is_upper_bound {
        words += " A visitor of several sites is counted once per site.";
    }
    let epoch = u64::from(period.reader.stats.salt_epoch().as_seconds());
    if length(&period.timeline.buckets.range()) > epoch {
        words += &format!(" A visitor without a stable identity is counted once per {}.", units::unit(epoch));
    }
    // This is about the process, which is not shared.
    let unidentified = unidentified(period.reader.stats.ledger().requests).filter(|_| !view.is_shared);
    if let Some(share) = unidentified {
        words += &format!(" {share} of human requests to this process are unidentified.");
    }
    words
}

fn unidentified(requests: Requests) -> Option<String> {
    let of_people = requests.recorded.saturating_sub(requests.bots);
    numbers::share(requests.unidentified, of_people).filter(|_| requests.unidentified > 0)
}

/// Returns the hits in the last minute, or in the latest complete bucket if that is longer, and its length in seconds.
async fn latest(
    reader: &Reader<'_>,
    hits: &CounterName,
    now: Timestamp,
) -> Result<Option<(u64, u64)>, Error> {
    let Some(finest) = reader.stats.grid().counts.iter().next() else { return Ok(None) };
    // The latest flush might still be running, so we skip one more bucket.
    let end = finest.precision.bucket(now.minus(1)).start;
    let length = 60_u64.next_multiple_of(finest.precision.as_seconds().into());
    let start = end.minus(length);
    if start < finest.oldest(now) {
        return Ok(None);
    }
    let series = reader.series_many(std::slice::from_ref(hits), finest.precision, start..end).await?;
    let total = reader::total(series.into_iter().next().flatten());
    Ok(total.map(|total| (total, length)))
}

/// Describes the people of the last minutes. Returns `None` if there may be people without an identity instead.
pub(crate) fn people_now(now: &Now, requests: Requests) -> Option<String> {
    if now.people.visitors == 0 && requests.unidentified > 0 {
        return None;
    }
    let people = digits::grouped(now.people.visitors);
    let limit = if now.people.is_upper_bound { "at most " } else { "" };
    let word = if now.people.visitors == 1 { "person" } else { "people" };
    Some(format!("{limit}{people} {word} now"))
}
