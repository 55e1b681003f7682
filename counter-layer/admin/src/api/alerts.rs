//! Routes to read alert rules and history, to add, remove and silence rules, and to send a test.

mod bucket;
mod rules;
mod history;
mod silence;
mod test;
mod change;

use counter_alert::Alerts;
use counter_core::Stats;

use super::route::Route;
pub(crate) use change::{add, remove};
pub(crate) use silence::silence;

/// The shared route state.
type State = (Stats, Alerts);

pub(crate) fn routes(stats: &Stats, alerts: &Alerts) -> [Route; 6] {
    let state = || (stats.clone(), alerts.clone());
    let [added, removed] = change::routes(&state());
    [
        rules::route(state()),
        history::route(state()),
        silence::route(state()),
        test::route(state()),
        added,
        removed,
    ]
}
