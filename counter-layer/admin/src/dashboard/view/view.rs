use std::sync::Arc;

use counter_core::{Precisions, Timestamp};

use super::chart::ChartView;
use super::client::Client;
use super::table::{Listed, TableView};
use super::value::WrongValue;
use crate::api::site::SITE;
use crate::zone::Zone;

/// The state of a page: the parsed URL, the site and the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) site: Site,
    pub(crate) client: Client,
    pub(crate) page: Page,
    pub(crate) chart: ChartView,
    pub(crate) table: TableView,
    /// True to show times in the time zone of the viewer instead of the site.
    pub(crate) is_local: bool,
    /// True for those who operate the service: its numbers come first.
    pub(crate) is_service: bool,
    /// The site of a fleet, or `None` for all sites.
    pub(crate) of_site: Option<String>,
    /// What a link to this view shows.
    pub(crate) shared: SharedPart,
    /// True if it is read through such a link. It then has no links, and no data of other pages or periods.
    pub(crate) is_shared: bool,
}

/// The part of a page that a link shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedPart {
    Chart,
    Page,
}

/// The site of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The path at which clients reach the router.
    pub(crate) mount: String,
    /// The path of the first page.
    pub(crate) first: String,
    pub(crate) zone: Zone,
    /// Determine when days start, preferred first: the time zone, and the days of the store.
    pub(super) calendars: Vec<Zone>,
    /// The readable precisions.
    pub(crate) reach: Precisions,
    /// The start of the period of all time. The earliest timestamp if it is not needed.
    pub(crate) first_hit: Timestamp,
    /// True if the alerts page exists.
    pub(crate) has_alerts: bool,
    /// True if notes can be added and removed.
    pub(crate) has_notes: bool,
    /// True if a browser can be ignored.
    pub(crate) has_ignore_switch: bool,
    /// The name of the site, or of all sites of a fleet.
    pub(crate) name: Option<Arc<str>>,
    /// The names of the sites of a fleet.
    pub(crate) sites: Arc<[String]>,
}

/// The pages of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Site,
    Counter,
    /// All pages or label values.
    List,
}

/// The value of `view` for those who operate the service.
pub(super) const SERVICE: &str = "service";

/// The query parameter with the part of a page that a link shows, and its value for the whole page.
pub(super) const SHARED_PART: &str = "share";
pub(super) const WHOLE_PAGE: &str = "page";

impl Page {
    /// Returns its path relative to the router.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Site => "",
            Self::Counter => "/counter",
            Self::List => "/list",
        }
    }
}

impl Site {
    pub(crate) fn new(mount: &str, first: &str, reach: &Precisions, zone: &Zone) -> Self {
        let start = reach.of_width(86_400).map_or(0, |days| days.precision.offset().cast_signed());
        // Days with the offsets +12:00 and -12:00 start at the same time, but nobody lives at the latter.
        let stored = Zone::fixed(if start >= 43_200 { 86_400 - start } else { -start });
        Self {
            mount: mount.to_owned(),
            first: first.to_owned(),
            zone: zone.clone(),
            calendars: (!zone.is_utc()).then(|| zone.clone()).into_iter().chain([stored]).collect(),
            reach: reach.clone(),
            first_hit: Timestamp::MIN,
            has_alerts: false,
            has_notes: false,
            has_ignore_switch: false,
            name: None,
            sites: Arc::default(),
        }
    }
}

impl View {
    /// Returns what the page lists.
    pub(crate) fn listed(&self) -> Listed<'_> {
        Listed::of(self.table.label.as_deref(), &self.chart.counters[0])
    }

    /// Parses a URL. Unknown names are ignored, so that saved URLs still work.
    ///
    /// # Errors
    /// Fails if a number, a time or a period can't be parsed, like the API. Empty values are treated as missing.
    pub(crate) fn of(site: Site, client: Client, page: Page, query: &str) -> Result<Self, WrongValue> {
        let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = pairs.collect();
        let mut chart = ChartView::read(&pairs, &site.zone)?;
        let mut table = TableView::default();
        for (name, value) in pairs.iter().filter(|_| page == Page::List) {
            table.read(name, value)?;
        }
        if page == Page::List && Listed::of(table.label.as_deref(), &chart.counters[0]) == Listed::Pages {
            chart.show_hits();
        }
        let value =
            |wanted: &str| pairs.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
        let is_local = value("zone") == Some("local");
        let is_service = value("view") == Some(SERVICE);
        let of_site = value(SITE).map(str::to_owned);
        if let Some(name) = of_site.as_ref().filter(|name| !site.sites.contains(name)) {
            return Err(WrongValue::new(SITE, name, "the name of a site"));
        }
        let is_page = value(SHARED_PART) == Some(WHOLE_PAGE);
        let shared = if is_page { SharedPart::Page } else { SharedPart::Chart };
        Ok(Self { site, client, page, chart, table, is_local, is_service, of_site, shared, is_shared: false })
    }

    /// Returns the configured name of the site.
    pub(crate) fn configured_name(&self) -> Option<&str> {
        self.of_site.as_deref().or(self.site.name.as_deref())
    }

    /// Returns the name of the site, or what the pages are about.
    pub(crate) fn site_name(&self) -> &str {
        self.configured_name().unwrap_or("Visits")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn of(page: Page, query: &str) -> View {
        try_of(page, query).unwrap_or_else(|wrong| panic!("{query}: {wrong}"))
    }

    fn try_of(page: Page, query: &str) -> Result<View, WrongValue> {
        let retained = Precisions::default();
        let site = Site::new("/admin/stats", "/admin/stats", &retained, &Zone::default());
        View::of(site, Client::default(), page, query)
    }

    #[test]
    fn unknown_names_and_empty_values_are_ignored() {
        for query in [
            "precision=7&show=likes&forecast=2&sort=size&zone=cet&theme=dark&%ff=%ff",
            "counter=&counter=%00",
            "&&==&?",
            "page=&period=&by=&compare=&from=&to=&label=",
        ] {
            assert_eq!(of(Page::Site, query).address(), "/admin/stats?period=today", "{query}");
            assert_eq!(of(Page::List, query).address(), "/admin/stats/list?period=today", "{query}");
        }
    }

    #[test]
    fn invalid_numbers_and_times_are_rejected() {
        for (name, values) in [
            ("period", ["x", "0d", "-1d", "weeks", "1.5h"]),
            ("page", ["x", "0", "-3", "1e3", " 1"]),
            ("label", ["Source", "a:b", "a b", "ü", "0123456789-0123456789_0123456789x"]),
            ("by", ["x", "0", "-1", "1d", "99999999999999999999"]),
            ("compare", ["x", "-1", "604800", "years", "2026-11-20"]),
            ("period=custom&from=0&to", ["x", "-1", "253402300800", "2026-02-30", "0"]),
        ] {
            for value in values {
                let wrong =
                    try_of(Page::List, &format!("counter=hits&{name}={value}")).expect_err(value).to_string();
                let name = name.rsplit('&').next().unwrap_or_default();
                assert!(wrong.contains(name) && wrong.contains(value), "{wrong}");
            }
        }
    }
}
