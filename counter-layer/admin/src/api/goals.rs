use axum::Json;
use axum::response::Response;
use counter_alert::goal::{GoalResult, Goals};
use counter_core::time::Grid;
use counter_core::{CounterName, Error, ErrorKind, Stats, Timestamp};
use counter_layer::internal::HITS;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::caching;
use super::notes::MAYBE_CHANGED;
use super::parameter::{Counter, HasGrid, NewGoal, Range, RequestParts, VisitorPrecision};
use super::response::Unreadable;
use super::route::{ResponseKind, Route};
use crate::access::right::GOALS;
use crate::problem::Problem;

/// The goals in a range, in the order in which they were marked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReachedGoals {
    precision: u32,
    from: u64,
    to: u64,
    /// The length of a salt epoch in seconds. A person will count again in the next epoch, for the goal and for the site,
    /// unless the identity is stable.
    salt_epoch: u32,
    goals: Vec<ReachedGoal>,
    /// Unreadable keys. The affected goals have no `now`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
}

/// A goal, and how often it was reached.
#[derive(Debug, Serialize, ToSchema)]
struct ReachedGoal {
    counter: String,
    name: String,
    /// In the range; null if it can't be read.
    now: Option<Reached>,
    /// In the range of the same length before; null unless the site and the goal were counted in all of it.
    before: Option<Reached>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Reached {
    hits: u64,
    /// An estimate of the people among the hits; null if no hit had a visitor.
    people: Option<u64>,
    /// The share of the people of the site, from 0 to 1; null if one of the numbers is not known or 0.
    conversion: Option<f64>,
    /// True if a visitor of several sites counts once per site.
    is_upper_bound: bool,
}

/// A counter that is a goal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Goal {
    counter: String,
    name: String,
}

#[derive(Clone, Debug)]
struct State {
    stats: Stats,
    goals: Goals,
}

impl HasGrid for State {
    fn grid(&self) -> &Grid {
        self.stats.grid()
    }

    fn reach(&self) -> &Grid {
        self.stats.reach()
    }
}

pub(crate) fn routes(stats: &Stats, goals: &Goals) -> [Route; 3] {
    let state = State { stats: stats.clone(), goals: goals.clone() };
    let reached = Route::get(GOALS, "The goals, with people and conversion", state.clone(), reached);
    let marked =
        Route::post(GOALS, "Marks a counter as a goal", state.clone(), move |request, _| mark(request));
    let removed = Route::delete(GOALS, "Removes a goal, but not the counter", state, remove);
    [
        reached.json::<ReachedGoals>().cached().details(
            "The conversion is the number of people of the goal divided by the number of people of the site. In a range of \
             several salt epochs, both are the sums of the epochs. At most 196 buckets.",
        ),
        marked
            .json::<Goal>()
            .details("If the counter already is a goal, this changes the name. There can be up to 50 goals.")
            .error_response("409", "The limit of 50 goals is reached")
            .error_response("503", MAYBE_CHANGED),
        removed.response("204", ResponseKind::Empty).error_response("503", MAYBE_CHANGED),
    ]
}

async fn reached(request: RequestParts<State, (VisitorPrecision, Range)>) -> Result<Response, Problem> {
    let RequestParts { state: State { stats, goals }, headers, .. } = request;
    let (VisitorPrecision(mut retention), range) = request.parameters;
    let Some(counts) = stats.reach().counts.retention(retention.precision) else {
        let requested = retention.precision;
        let error = ErrorKind::UnknownPrecision { requested, retained: stats.grid().counts.to_string() };
        return Err(Problem::of(&Error::new(error), &stats));
    };
    retention.reach = retention.reach.min(counts.samples);
    let now = Timestamp::now();
    let max = Stats::MAX_COUNTED_SKETCHES / (Goals::MAX as u64 + 1);
    let (precision, range) = (retention.precision, range.buckets(retention, max, now)?.range);
    let site = CounterName::new(HITS).expect("a valid name");
    let results = goals.reached(&stats, &site, precision, range.clone()).await;
    let results = results.map_err(|error| Problem::of(&error, &stats))?;
    let unreadable = results.iter().filter_map(|result| result.now.as_ref().err()).cloned();
    let reached = ReachedGoals {
        precision: precision.as_seconds(),
        from: range.start.as_unix(),
        to: range.end.as_unix(),
        salt_epoch: stats.salt_epoch().as_seconds(),
        unreadable: Unreadable::list(unreadable),
        goals: results.into_iter().map(ReachedGoal::from).collect(),
    };
    // A new goal would otherwise not be shown until the response expires.
    Ok(caching::json_response(&headers, None, &reached))
}

async fn mark(
    RequestParts { state: State { stats, goals }, parameters: (NewGoal(goal),), .. }: RequestParts<
        State,
        (NewGoal,),
    >,
) -> Result<Json<Goal>, Problem> {
    goals.mark(&goal).await.map_err(|error| Problem::goals_not_changed(&error, &stats))?;
    tracing::info!(counter = &**goal.counter(), "marked a goal");
    Ok(Json(Goal { counter: goal.counter().to_string(), name: goal.name().to_owned() }))
}

/// Succeeds even if the goal does not exist, so that clients can retry if a response was lost.
async fn remove(
    RequestParts { state: State { stats, goals }, parameters: (Counter(counter),), .. }: RequestParts<
        State,
        (Counter,),
    >,
) -> Result<StatusCode, Problem> {
    if goals.remove(&counter).await.map_err(|error| Problem::goals_not_changed(&error, &stats))? {
        tracing::info!(counter = &*counter, "removed a goal");
    }
    Ok(StatusCode::NO_CONTENT)
}

impl From<GoalResult> for ReachedGoal {
    fn from(GoalResult { goal, now, before, .. }: GoalResult) -> Self {
        Self {
            counter: goal.counter().to_string(),
            name: goal.name().to_owned(),
            now: now.ok().map(Reached::from),
            before: before.map(Reached::from),
        }
    }
}

impl From<counter_alert::goal::Reached> for Reached {
    fn from(reached: counter_alert::goal::Reached) -> Self {
        let (people, of) = (reached.people, reached.of);
        Self {
            hits: reached.hits,
            people: people.map(|people| people.visitors),
            conversion: reached.conversion(),
            is_upper_bound: of.is_upper_bound,
        }
    }
}
