//! Forms to mark a counter as a goal.

use counter_alert::goal::Goal;
use counter_core::{CounterName, Error};

use crate::access::form::Form;
use crate::access::right::{GOAL_FORM, NO_GOAL_FORM};
use crate::dashboard::reader::Reader;
use crate::dashboard::view::view::View;

/// The goal of a counter page, or the form to mark the counter as one.
#[derive(Debug)]
pub(crate) struct GoalForms {
    /// The name, if the counter is a goal.
    pub(crate) goal: Option<String>,
    /// The URLs to mark and to remove a goal, for clients that may note.
    pub(crate) change: Option<[String; 2]>,
    pub(crate) counter: CounterName,
    /// The page to return to, relative to the router.
    pub(crate) to: String,
    /// The maximum number of characters in a name.
    pub(crate) max_chars: usize,
}

impl GoalForms {
    /// Returns `None` if the counter can't be a goal, or if it is none and this client may not mark it.
    pub(crate) async fn read(reader: &Reader<'_>, view: &View) -> Result<Option<Self>, Error> {
        let counter = view.chart.counters[0].clone();
        if !reader.has_goals() || Goal::new(counter.clone(), "a goal").is_err() {
            return Ok(None);
        }
        let goals = reader.goals().await?;
        let goal = goals.into_iter().find(|goal| *goal.counter() == counter);
        let address = |path| format!("{}{path}", view.site.mount);
        let change = view.client.may_note.then(|| [GOAL_FORM, NO_GOAL_FORM].map(address));
        Ok((goal.is_some() || change.is_some()).then(|| Self {
            goal: goal.map(|goal| goal.name().to_owned()),
            change,
            counter,
            to: view.below(),
            max_chars: Goal::MAX_CHARS,
        }))
    }
}

/// Returns the goal of a form, or the reason why the form is invalid.
pub(crate) fn submitted(form: &Form) -> Result<Goal, String> {
    let counter = form.field("counter").parse().map_err(|error| format!("Goal not marked: {error}."))?;
    Goal::new(counter, form.field("name").trim()).map_err(|error| format!("Goal not marked: {error}."))
}
