use axum::Json;
use counter_core::Stats;

use super::parameter::{Counters, RequestParts};
use super::read;
use super::response::{Lifetime, Lifetimes, Unreadable};
use super::route::Route;
use crate::problem::Problem;

pub(crate) fn route(stats: &Stats) -> Route {
    Route::get("/api/lifetimes", "The lifetime totals of counters", stats.clone(), lifetimes)
        .json::<Lifetimes>()
}

async fn lifetimes(
    RequestParts { state: stats, parameters: (Counters(counters),), .. }: RequestParts<Stats, (Counters,)>,
) -> Result<Json<Lifetimes>, Problem> {
    let totals = stats.lifetimes_by_counter(&counters).await.map_err(|error| Problem::of(&error, &stats))?;
    let empty = counters.iter().zip(&totals).filter(|(_, total)| **total == Ok(0));
    let empty: Vec<_> = empty.map(|(counter, _)| counter.clone()).collect();
    read::require_known(&stats, &empty).await?;
    let foreign = read::foreign_counters(&stats, &empty).await?;
    let (mut lifetimes, mut unreadable) = (Vec::new(), Vec::new());
    for (counter, total) in counters.iter().zip(totals) {
        let total = total.map_err(|why| unreadable.push(why)).ok().filter(|_| !foreign.contains(counter));
        lifetimes.push(Lifetime { counter: counter.to_string(), total });
    }
    Ok(Json(Lifetimes { lifetimes, unreadable: Unreadable::list(unreadable) }))
}
