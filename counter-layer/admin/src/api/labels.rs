use std::collections::HashMap;

use axum::response::Response;
use counter_core::visits::LabelRanking;
use counter_core::{Stats, Timestamp};
use counter_layer::Bot;
use futures_util::future::join_all;

use super::caching;
use super::parameter::{CountPrecision, LabelNames, Limit, Range, RequestParts};
use super::response::{LabelTop, LabelValue, Labels, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets.
const DEFAULT_BUCKETS: u64 = 1000;

/// The label with the names of bots.
const BOTS: &str = "bot";

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/labels", "The label values with the most hits", stats.clone(), labels)
        .json::<Labels>()
        .cached()
        .details(
            "At most 10,000 buckets per value; without `from` the latest 1,000. If a label has more than 50,000 \
             values, or 10,000,000 buckets in total, some rare values are omitted, and `is_partial` is true. Known \
             bots in the label `bot` have a purpose, and an operator if it is known.",
        )
}

async fn labels(
    request: RequestParts<Stats, (LabelNames, CountPrecision, Range, Limit<10>)>,
) -> Result<Response, Problem> {
    let RequestParts { state: stats, headers, .. } = request;
    let (LabelNames(names), CountPrecision(retention), range, Limit(limit)) = request.parameters;
    let now = Timestamp::now();
    let (precision, range) = (retention.precision, range.buckets(retention, DEFAULT_BUCKETS, now)?.range);
    let failed = |error| Problem::of(&error, &stats);
    let rankings = match names.is_empty() {
        true => stats.label_rankings(&[], precision, range.clone(), limit).await.map_err(failed)?,
        false => {
            let read = async |label: String| {
                let ranking = stats.label(&label, precision, range.clone(), limit).await;
                (label, ranking)
            };
            join_all(names.into_iter().map(read)).await
        }
    };
    let mut labels = Vec::with_capacity(rankings.len());
    for (label, ranking) in rankings {
        labels.push(LabelTop::of(label, ranking.map_err(failed)?));
    }
    let (from, to) = (range.start.as_unix(), range.end.as_unix());
    let response = Labels { precision: precision.as_seconds(), from, to, labels };
    Ok(caching::json_response(&headers, caching::max_age(precision, range.end, now), &response))
}

impl LabelTop {
    fn of(label: String, top: LabelRanking) -> Self {
        let LabelRanking { values, none, other, missed, total, is_partial, unreadable, .. } = top;
        let bots: HashMap<_, _> = match label.as_str() {
            BOTS => Bot::all().map(|bot| (bot.name(), bot)).collect(),
            _ => HashMap::new(),
        };
        let value = |(value, count): (String, u64)| {
            let bot = bots.get(value.as_str());
            let operator = bot.and_then(Bot::operator);
            LabelValue { operator, purpose: bot.map(|bot| bot.purpose().as_str()), value, count }
        };
        let values = values.into_iter().map(value).collect();
        let unreadable = Unreadable::list(unreadable);
        Self { label, total, none, other, missed, is_partial, values, unreadable }
    }
}
