use std::collections::HashMap;

use axum::response::Response;
use counter_core::visits::{Coverage, LabelRanking, Uniques};
use counter_core::{CounterName, Error, Precision, Stats, Timestamp};
use counter_layer::internal::{BOT_LABEL, SOURCE_LABEL};
use counter_layer::{Bot, SourceGroup};
use futures_util::future::{join_all, try_join_all};

use super::caching;
use super::parameter::{
    CountPrecision, LabelAndValue, LabelNames, Limit, OfPage, Range, RequestParts, WithPeople,
};
use super::read;
use super::response::{LabelTop, LabelValue, Labels, Place, Unreadable, ValuePages};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets.
const DEFAULT_BUCKETS: u64 = 1000;

/// The counter of requests without a value.
const NONE: &str = "(none)";

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/labels", "The label values with the most hits", stats.clone(), labels)
        .json::<Labels>()
        .cached()
        .details(
            "At most 10,000 buckets per value; without `from` the latest 1,000. If a label has more than 50,000 \
             values, or 10,000,000 buckets in total, some rare values are omitted, and `is_partial` is true. Known \
             bots in the label `bot` have a purpose, and an operator if it is known. Known groups in the label `source` have \
             a kind. The values of a page are only \
             available for labels that are counted by page. People are available for labels that count people, in precisions of \
             a day or more, for at most 10,000 buckets per label.",
        )
}

pub(crate) fn pages_route(stats: &Stats) -> Route {
    Route::get("/api/labels/pages", "The pages with the most hits of a label value", stats.clone(), pages)
        .json::<ValuePages>()
        .cached()
        .details(
            "Only available for labels that are counted by page. At most 10,000 buckets per page; without `from` the \
             latest 1,000. If a label has more than 200,000 pairs of a page and a value, some pages are omitted, and \
             `is_partial` is true.",
        )
}

async fn labels(
    request: RequestParts<Stats, (LabelNames, OfPage, CountPrecision, Range, Limit<10>, WithPeople)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (LabelNames(names), OfPage(page), CountPrecision(retention), range, Limit(limit), people) =
        request.parameters;
    let WithPeople(people) = people;
    if people && let Some(page) = &page {
        let allowed = "no page: the people of a page are not counted by value";
        return Err(Problem::parameter("not available with people", "counter", Some(page), allowed));
    }
    let mut retention = retention;
    if people && let Some(kept) = stats.reach().visitors.retention(retention.precision) {
        retention.reach = retention.reach.min(kept.samples);
    }
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let failed = |error| Problem::of(&error, &stats);
    let rankings = match (names.is_empty(), &page) {
        (true, None) => stats.label_rankings(&[], precision, range.clone(), limit).await.map_err(failed)?,
        (true, Some(page)) => {
            stats.labels_of_page(&[], page, precision, range.clone(), limit).await.map_err(failed)?
        }
        (false, page) => {
            let read = async |label: String| {
                let range = range.clone();
                let ranking = match page {
                    None => stats.label(&label, precision, range, limit).await,
                    Some(page) => stats.label_of_page(&label, page, precision, range, limit).await,
                };
                (label, ranking)
            };
            join_all(names.into_iter().map(read)).await
        }
    };
    let read = async |(label, ranking): (String, Result<LabelRanking, Error>)| {
        let mut top = LabelTop::of(label, page.as_ref(), ranking?);
        if people {
            top.read_people(&stats, precision, range.clone()).await?;
        }
        Ok(top)
    };
    let labels = try_join_all(rankings.into_iter().map(read)).await.map_err(failed)?;
    let (from, to) = (range.start.as_unix(), range.end.as_unix());
    let salt_epoch = people.then(|| stats.salt_epoch().as_seconds());
    let response = Labels { precision: precision.as_seconds(), from, to, salt_epoch, labels };
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &response))
}

async fn pages(
    request: RequestParts<Stats, (LabelAndValue, CountPrecision, Range, Limit<10>)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (LabelAndValue(label, value), CountPrecision(retention), range, Limit(limit)) = request.parameters;
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let pages = stats.pages_of_value(&label, &value, precision, range.clone(), limit).await;
    let pages = pages.map_err(|error| Problem::of(&error, &stats))?;
    let response = ValuePages {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        label,
        value,
        total: pages.total,
        other: pages.other,
        missed: pages.missed,
        is_partial: pages.is_partial,
        pages: pages.values.into_iter().map(|(counter, count)| Place { counter, count }).collect(),
        unreadable: Unreadable::list(pages.unreadable),
    };
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &response))
}

impl LabelTop {
    /// Adds the people of the values. If there are hits without people, the people are not known.
    async fn read_people(
        &mut self,
        stats: &Stats,
        precision: Precision,
        range: std::ops::Range<Timestamp>,
    ) -> Result<(), Error> {
        let none = (NONE, self.none);
        let values =
            std::iter::once(none).chain(self.values.iter().map(|value| (&*value.value, value.count)));
        let (values, counts): (Vec<_>, Vec<_>) = values.unzip();
        let counter = |value: &&str| {
            CounterName::new(&format!("{}{}:{value}", CounterName::LABELS, self.label)).expect("it was read")
        };
        let counters: Vec<_> = values.iter().map(counter).collect();
        let uniques = stats.uniques_by_counter(&counters, precision, range.clone()).await?;
        let first = counts.iter().enumerate().max_by_key(|(_, count)| **count).map_or(0, |(place, _)| place);
        if let Coverage::Since(start) =
            read::people_coverage(stats, &counters[first], precision, range).await?
        {
            self.people_since = Some(start.as_unix());
        }
        let mut unreadable = Vec::new();
        let known = |(uniques, count): (Result<Uniques, _>, u64)| {
            let uniques = uniques.map_err(|why| unreadable.push(why)).ok()?;
            self.is_upper_bound |= uniques.is_upper_bound;
            (uniques.visitors > 0 || count == 0).then_some(uniques.visitors)
        };
        let people: Vec<_> = uniques.into_iter().zip(counts).map(known).collect();
        let mut people = people.into_iter();
        self.none_people = people.next();
        self.values.iter_mut().zip(people).for_each(|(value, people)| value.people = Some(people));
        self.unreadable.extend(Unreadable::list(unreadable));
        Ok(())
    }

    fn of(label: String, page: Option<&CounterName>, top: LabelRanking) -> Self {
        let LabelRanking { values, none, other, missed, total, is_partial, unreadable, .. } = top;
        let bots: HashMap<_, _> = match label.as_str() {
            BOT_LABEL => Bot::all().map(|bot| (bot.name(), bot)).collect(),
            _ => HashMap::new(),
        };
        let groups: HashMap<_, _> = match label.as_str() {
            SOURCE_LABEL => SourceGroup::all().map(|group| (group.name(), group.kind().as_str())).collect(),
            _ => HashMap::new(),
        };
        let value = |(value, count): (String, u64)| {
            let bot = bots.get(value.as_str());
            let (operator, purpose) = (bot.and_then(Bot::operator), bot.map(|bot| bot.purpose().as_str()));
            LabelValue {
                operator,
                purpose,
                kind: groups.get(value.as_str()).copied(),
                value,
                count,
                people: None,
            }
        };
        let values = values.into_iter().map(value).collect();
        let unreadable = Unreadable::list(unreadable);
        let counter = page.map(ToString::to_string);
        Self {
            label,
            counter,
            total,
            none,
            none_people: None,
            people_since: None,
            is_upper_bound: false,
            other,
            missed,
            is_partial,
            values,
            unreadable,
        }
    }
}
