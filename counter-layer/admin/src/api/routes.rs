//! All routes of the admin router, in index order.

use counter_core::Stats;

use super::alerts;
use super::audit;
use super::badge::{self, Pictures};
use super::counters;
use super::explore;
use super::export;
use super::forecast;
use super::goals;
use super::index;
use super::labels;
use super::lifetimes;
use super::live::{self, Live};
use super::metrics;
use super::notes;
use super::now;
use super::openapi;
use super::percentiles;
use super::process;
use super::route::{Catalog, Route};
use super::series;
use super::slowest;
use super::sources;
use super::statuses;
use super::top;
use super::total;
use super::uniques;
use super::views;
use crate::access::Access;
use crate::options::Options;

/// Returns the routes. `first` will be served at the root.
pub(crate) fn routes(
    first: Route,
    stats: &Stats,
    access: &Access,
    options: Options,
    catalog: &Catalog,
) -> Vec<Route> {
    let scrape = metrics::Source { stats: stats.clone(), access: access.clone(), options: options.clone() };
    let pictures = Pictures::new(stats.clone(), |_| true);
    let mut optional = Vec::new();
    if stats.grid().distributions.is_some() {
        optional.extend([percentiles::route(stats), statuses::route(stats), slowest::route(stats)]);
    }
    optional.extend(badge::routes(&pictures));
    #[cfg(feature = "hits")]
    if let Some(producers) = &options.producers {
        optional.extend(super::hits::routes(stats, producers));
    }
    if let Some(archive) = &options.archive {
        optional.extend(audit::routes(stats, archive));
    }
    if let Some(alerts) = &options.alerts {
        optional.extend(alerts::routes(stats, alerts));
    }
    if let Some(notes) = &options.notes {
        optional.extend(notes::routes(stats, notes));
    }
    if let Some(goals) = &options.goals {
        optional.extend(goals::routes(stats, goals));
    }
    let mut routes = vec![
        first,
        index::route(stats, catalog),
        counters::route(stats),
        counters::forget_route(stats),
        series::route(stats),
        total::route(stats),
        lifetimes::route(stats),
        top::route(stats),
        views::route(stats),
        now::route(stats),
        labels::route(stats),
        labels::pages_route(stats),
        uniques::route(stats),
        forecast::route(stats),
        live::route(Live::new(stats.clone(), options)),
        process::ledger_route(stats),
        process::health_route(stats),
        sources::route(stats),
        export::route(stats),
        openapi::route(stats, catalog),
        explore::route(catalog),
        metrics::route(scrape),
    ];
    routes.extend(optional);
    routes
}
