use axum::response::Response;
use counter_core::visits::LabelRanking;
use counter_core::{Stats, Timestamp};
use futures_util::future::join_all;

use super::caching;
use super::parameter::{Asked, KeptPrecision, LabelNames, Limit, Range};
use super::response::{LabelTop, LabelValue, Labels, Unreadable};
use super::route::Route;
use crate::problem::Problem;

/// The default number of buckets.
const RANKED: u64 = 1000;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/labels", "The values of labels with the most hits", stats.clone(), labels)
        .json::<Labels>()
        .cached()
        .most(
            "At most 10,000 buckets of each value; without `from` the latest 1,000. Of a label with more than 50,000 \
             values, or 10,000,000 buckets of all values, some of the rarest are left out, and `is_partial` is true.",
        )
}

async fn labels(
    asked: Asked<Stats, (LabelNames, KeptPrecision, Range, Limit<10>)>,
) -> Result<Response, Problem> {
    let Asked { state: stats, headers, .. } = asked;
    let (LabelNames(names), KeptPrecision(kept), range, Limit(limit)) = asked.parameters;
    let now = Timestamp::now();
    let (precision, range) = (kept.precision, range.buckets(kept, RANKED, now)?.range);
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
    let answer = Labels { precision: precision.as_seconds(), from, to, labels };
    Ok(caching::answer(&headers, caching::max_age(precision, range.end, now), &answer))
}

impl LabelTop {
    fn of(label: String, top: LabelRanking) -> Self {
        let LabelRanking { values, none, other, missed, total, is_partial, unreadable, .. } = top;
        let values = values.into_iter().map(|(value, count)| LabelValue { value, count }).collect();
        let unreadable = Unreadable::list(unreadable);
        Self { label, total, none, other, missed, is_partial, values, unreadable }
    }
}
