use std::collections::HashMap;

use axum::response::Response;
use counter_core::visits::{LabelRanking, Uniques};
use counter_core::{CounterName, Error, Precision, Stats, Timestamp};
use counter_layer::internal::{BOT_LABEL, SOURCE_LABEL};
use counter_layer::{Bot, SourceGroup};
use futures_util::future::join_all;

use super::caching;
use super::parameter::{
    CountPrecision, LabelAndValue, LabelNames, Limit, OfPage, Range, RequestParts, WithPeople,
};
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
    if let (WithPeople(true), Some(page)) = (&people, &page) {
        let allowed = "no page: the people of a page are not counted by value";
        return Err(Problem::parameter("not available with people", "counter", Some(page), allowed));
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
    let mut labels = Vec::with_capacity(rankings.len());
    for (label, ranking) in rankings {
        let mut top = LabelTop::of(label, page.as_ref(), ranking.map_err(failed)?);
        if people.0 {
            top.read_people(&stats, precision, range.clone()).await.map_err(failed)?;
        }
        labels.push(top);
    }
    let (from, to) = (range.start.as_unix(), range.end.as_unix());
    let response = Labels { precision: precision.as_seconds(), from, to, labels };
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
    /// Adds the people of the values. If there are hits without people, they are not known.
    async fn read_people(
        &mut self,
        stats: &Stats,
        precision: Precision,
        range: std::ops::Range<Timestamp>,
    ) -> Result<(), Error> {
        let counts = std::iter::once(self.none).chain(self.values.iter().map(|value| value.count));
        let counts: Vec<_> = counts.collect();
        let values = std::iter::once(NONE).chain(self.values.iter().map(|value| &*value.value));
        let counter = |value: &str| {
            CounterName::new(&format!("{}{}:{value}", CounterName::LABELS, self.label)).expect("it was read")
        };
        let counters: Vec<_> = values.map(counter).collect();
        let uniques = stats.uniques_by_counter(&counters, precision, range).await?;
        let mut unreadable = Vec::new();
        let known = |(uniques, count): (Result<Uniques, _>, u64)| {
            let uniques = uniques.map_err(|why| unreadable.push(why)).ok()?;
            (uniques.visitors > 0 || count == 0).then_some(uniques.visitors)
        };
        let mut people = uniques.into_iter().zip(counts).map(known);
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
        Self { label, counter, total, none, none_people: None, other, missed, is_partial, values, unreadable }
    }
}
