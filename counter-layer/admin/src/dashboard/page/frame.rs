//! The frame of every page for people.

use counter_core::{Stats, Timestamp};

use super::assets;
use crate::dashboard::format::instants;
use crate::dashboard::format::units;
use crate::dashboard::view::view::View;

/// The frame of every page.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) site: String,
    pub(crate) address: String,
    pub(crate) parts: String,
    /// The address with the times of the viewer or those of the site.
    pub(crate) toggled_zone: String,
    /// The name of the zone of the site.
    pub(crate) zone: String,
    /// Times are those of the site, with a script as well.
    pub(crate) utc: bool,
    pub(crate) logout: Option<String>,
    /// The addresses that end all sessions and all links.
    pub(crate) revocations: Option<[String; 2]>,
    /// The revocations of other instances are not known here.
    pub(crate) misses_revocations: bool,
    /// The address of the page of alerts, where there is one.
    pub(crate) alerts: Option<String>,
    /// The beginnings of buckets and days, in words.
    pub(crate) beginning: String,
}

impl Frame {
    pub(crate) fn of(stats: &Stats, view: &View) -> Self {
        Self {
            style: format!("{}{}", view.site.mount, assets::style()),
            script: format!("{}{}", view.site.mount, assets::script()),
            site: view.site(),
            address: view.address(),
            parts: view.parts(),
            toggled_zone: view.but(|view| view.utc = !view.utc),
            zone: view.site.zone.name().to_owned(),
            utc: view.utc,
            logout: view.logout(),
            revocations: view.revocations(),
            misses_revocations: view.client.misses_revocations,
            alerts: view.alerts(),
            beginning: beginning(stats, view),
        }
    }
}

/// Tells when buckets and days begin, of which there are some in the zone of the site if enough is kept.
pub(crate) fn beginning(stats: &Stats, view: &View) -> String {
    let buckets = instants::beginning(&stats.grid().counts);
    match (view.site.zone.is_utc(), view.days(1, Timestamp::now())) {
        (true, _) => buckets,
        (false, None) => format!(
            "{buckets} Nothing is kept that days of {} could consist of: that takes hours, or quarter hours.",
            view.site.zone.name()
        ),
        (false, Some(days)) => format!(
            "Days are those of {}, as sums of buckets of {}. Other buckets begin with those of UTC.",
            view.site.zone.name(),
            units::span(u64::from(days.read.precision.as_seconds()))
        ),
    }
}
