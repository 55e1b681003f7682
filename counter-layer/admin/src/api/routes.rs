//! The list of all routes of the admin router, in the order of the index.

use counter_core::Stats;

use super::badge::{self, Pictures};
use super::live::{self, Live};
use super::metrics::{self, Source};
use super::route::{Catalog, Route};
use super::{
    counters, export, index, labels, lifetimes, percentiles, process, series, slowest, sources, statuses,
    top, total, uniques,
};
use crate::access::Access;
use crate::options::Options;

/// The routes, of which `first` answers at the root.
pub(crate) fn routes(
    first: Route,
    stats: Stats,
    access: &Access,
    options: Options,
    catalog: &Catalog,
) -> Vec<Route> {
    #[cfg(feature = "hits")]
    let hits = options.producers.as_ref().map(|producers| super::hits::routes(&stats, producers));
    #[cfg(feature = "archive")]
    let audit = options.archive.as_ref().map(|archive| super::audit::routes(&stats, archive));
    #[cfg(feature = "alert")]
    let alerts = options.alerts.clone();
    #[cfg(feature = "alert")]
    let alert_routes = alerts.as_ref().map(|alerts| super::alerts::routes(&stats, alerts));
    #[cfg(feature = "note")]
    let notes = options.notes.as_ref().map(|notes| super::notes::routes(&stats, notes));
    #[cfg(feature = "hits")]
    let producers = options.producers.clone();
    let distributions = stats.grid().distributions.is_some();
    let distributions =
        distributions.then(|| [percentiles::route(&stats), statuses::route(&stats), slowest::route(&stats)]);
    let live = Live::new(stats.clone(), options);
    let pictures = Pictures::new(stats.clone(), |_| true);
    let mut routes = vec![
        first,
        index::route(&stats, catalog),
        counters::route(&stats),
        counters::forget_route(&stats),
        series::route(&stats),
        total::route(&stats),
        lifetimes::route(&stats),
        top::route(&stats),
        labels::route(&stats),
        uniques::route(&stats),
        #[cfg(feature = "forecast")]
        super::forecast::route(&stats),
        live::route(live),
        process::ledger_route(&stats),
        process::health_route(&stats),
        sources::route(&stats),
        export::route(&stats),
        #[cfg(feature = "openapi")]
        super::openapi::route(&stats, catalog),
        #[cfg(feature = "openapi")]
        super::explore::route(catalog),
        metrics::route(Source {
            stats,
            access: access.clone(),
            #[cfg(feature = "hits")]
            producers,
            #[cfg(feature = "alert")]
            alerts,
        }),
    ];
    routes.extend(distributions.into_iter().flatten());
    routes.extend(badge::routes(&pictures));
    #[cfg(feature = "hits")]
    routes.extend(hits.into_iter().flatten());
    #[cfg(feature = "archive")]
    routes.extend(audit.into_iter().flatten());
    #[cfg(feature = "alert")]
    routes.extend(alert_routes.into_iter().flatten());
    #[cfg(feature = "note")]
    routes.extend(notes.into_iter().flatten());
    routes
}
