//! The frame shared by all HTML pages.

use counter_core::{Stats, Timestamp};

use super::update::Pace;
use crate::access::assets;
use crate::access::right::IGNORE_FORM;
use crate::dashboard::format::instants;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::view::View;

/// The frame of a page.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) style: String,
    pub(crate) icon: String,
    pub(crate) script: String,
    /// The URL of the first page.
    pub(crate) site: String,
    /// The name of the site, for titles.
    pub(crate) site_name: String,
    pub(crate) address: String,
    pub(crate) parts: String,
    pub(crate) pace: Pace,
    /// The URL that switches between the time zones of viewer and site. `None` if the page is only shown in that of the
    /// site.
    pub(crate) toggled_zone: Option<String>,
    /// The time zone name of the site.
    pub(crate) zone: String,
    /// True if the script should show times in the time zone of the viewer.
    pub(crate) is_local: bool,
    pub(crate) logout: Option<String>,
    /// The URLs to end all sessions and to revoke all links.
    pub(crate) revocations: Option<[String; 2]>,
    /// True if revocations of other instances can't be read.
    pub(crate) misses_revocations: bool,
    /// The URL of the alerts page, if it exists.
    pub(crate) alerts: Option<String>,
    /// The URL of the page to share the view, if the client has a session.
    pub(crate) share: Option<String>,
    pub(crate) ignore: Option<IgnoreSwitch>,
    /// The URL of the API.
    pub(crate) api: String,
    /// A sentence on the alignment of buckets and days.
    pub(crate) alignment: String,
}

/// The form to ignore a browser, or to count it again.
#[derive(Debug)]
pub(crate) struct IgnoreSwitch {
    pub(crate) address: String,
    /// The page to return to, relative to the router.
    pub(crate) to: String,
    pub(crate) is_ignored: bool,
}

impl Frame {
    pub(crate) fn of(stats: &Stats, view: &View) -> Self {
        let by = view.timeline(Timestamp::now()).buckets.by;
        // Days are those of the site, so other times next to them are as well.
        let has_days = !by.is_within_day();
        Self {
            style: format!("{}{}", view.site.mount, assets::style()),
            icon: format!("{}{}", view.site.mount, assets::icon()),
            script: format!("{}{}", view.site.mount, assets::script()),
            site: view.site(),
            site_name: view.site_name().to_owned(),
            address: view.address(),
            parts: view.parts(),
            pace: Pace::of(view.page, by),
            toggled_zone: (!has_days).then(|| view.address_with(|view| view.is_local = !view.is_local)),
            zone: view.site.zone.name().to_owned(),
            is_local: view.is_local && !has_days,
            logout: view.logout(),
            revocations: view.revocations(),
            misses_revocations: view.client.misses_revocations,
            alerts: view.alerts(),
            share: view.share(),
            ignore: IgnoreSwitch::of(view),
            api: format!("{}/api", view.site.mount),
            alignment: alignment(stats, view),
        }
    }

    /// Keeps the unit of the chart in its updates and in shared views, although the default may change.
    pub(crate) fn pinned(self, view: &View, metric: Metric) -> Self {
        let mut view = view.clone();
        view.chart.metric = Some(metric);
        Self { parts: view.parts(), share: view.share(), ..self }
    }
}

impl IgnoreSwitch {
    pub(crate) fn of(view: &View) -> Option<Self> {
        let address = || format!("{}{IGNORE_FORM}", view.site.mount);
        let is_ignored = view.client.is_ignored;
        view.site.has_ignore_switch.then(|| Self { address: address(), to: view.below(), is_ignored })
    }
}

/// Describes the alignment of buckets and days. Days are in the time zone of the site if retention allows
/// this.
pub(crate) fn alignment(stats: &Stats, view: &View) -> String {
    let (buckets, zone) = (instants::alignment(&stats.grid().counts), &view.site.zone);
    let timeline = view.timeline(Timestamp::now());
    match !zone.is_utc() && timeline.calendar == *zone {
        true => format!("Days are in {}.", zone.name()),
        false => buckets,
    }
}
