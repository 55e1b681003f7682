//! Parameters to mark a goal.

use counter_alert::goal::{Goal, GoalError};

use super::counters::Counter;
use super::{Description, Parameters, Times, Values, line_schema};
use crate::problem::Problem;

/// A goal to mark, with counter and name.
#[derive(Debug)]
pub(crate) struct NewGoal(pub(crate) Goal);

impl<S> Parameters<S> for NewGoal {
    fn describe() -> Vec<Description> {
        let name = Description::new("name", "What people do, e.g. “Signed up”", |_| {
            line_schema(Goal::MAX_CHARS)
        });
        let mut all = <Counter as Parameters<S>>::describe();
        all.push(Description { example: Some("Signed up"), ..name.times(Times::Once) });
        all
    }

    fn read(values: &Values<'_>, state: &S) -> Result<Self, Problem> {
        let Counter(counter) = Counter::read(values, state)?;
        let Some(name) = values.one("name")? else {
            return Err(Problem::parameter("missing parameter", "name", None, GoalError::Name.to_string()));
        };
        let shown = counter.to_string();
        Goal::new(counter, name).map(Self).map_err(|error| match error {
            GoalError::Counter => {
                Problem::parameter("not a counter of a goal", "counter", Some(&shown), error.to_string())
            }
            _ => Problem::parameter("not a valid name of a goal", "name", Some(name), error.to_string()),
        })
    }
}
