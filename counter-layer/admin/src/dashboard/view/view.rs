use counter_core::Precisions;
use counter_core::time::Retention;

use super::chart::ChartView;
use super::client::Client;
use super::table::TableView;
use super::value::WrongValue;
use crate::zone::Zone;

/// The state of a page: the parsed URL, the site and the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) site: Site,
    pub(crate) client: Client,
    pub(crate) page: Page,
    pub(crate) chart: ChartView,
    pub(crate) table: TableView,
    /// True to show times in the time zone of the site instead of the viewer.
    pub(crate) utc: bool,
}

/// The site of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The path at which clients reach the router.
    pub(crate) mount: String,
    /// The path of the first page.
    pub(crate) first: String,
    pub(crate) zone: Zone,
    /// The precisions that days of the time zone can be computed from. Empty if the site uses the days of the
    /// store.
    pub(super) parts: Vec<Retention>,
    /// True if the alerts page exists.
    pub(crate) has_alerts: bool,
}

/// The pages of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Site,
    Counter,
}

impl Site {
    pub(crate) fn new(mount: &str, first: &str, reach: &Precisions, zone: &Zone) -> Self {
        Self {
            mount: mount.to_owned(),
            first: first.to_owned(),
            zone: zone.clone(),
            parts: if zone.is_utc() { Vec::new() } else { reach.iter().collect() },
            has_alerts: false,
        }
    }
}

impl View {
    /// Parses a URL, given the readable precisions. Unknown names are ignored and lengths are limited,
    /// so that saved URLs still work if the precisions change.
    ///
    /// # Errors
    /// Fails if a number or a time can't be parsed, like the API. Empty values are treated as missing.
    pub(crate) fn of(
        site: Site,
        client: Client,
        page: Page,
        query: &str,
        reach: &Precisions,
    ) -> Result<Self, WrongValue> {
        let (mut chart, mut table, mut utc) = (ChartView::new(reach), TableView::default(), false);
        let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        for (name, value) in pairs {
            chart.read(&name, &value, reach, &site.zone)?;
            table.read(&name, &value)?;
            utc = if name == "zone" { value == "utc" } else { utc };
        }
        chart.complete();
        Ok(Self { site, client, page, chart, table, utc })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn of(query: &str) -> View {
        try_of(query).unwrap_or_else(|wrong| panic!("{query}: {wrong}"))
    }

    fn try_of(query: &str) -> Result<View, WrongValue> {
        let retained = Precisions::default();
        let site = Site::new("/admin/stats", "/admin/stats", &retained, &Zone::default());
        View::of(site, Client::default(), Page::Site, query, &retained)
    }

    #[test]
    fn precisions_are_addressed_by_width_for_any_offset() {
        let retained = Precisions::default().utc_offset(3600);
        let of = |query: &str| {
            let site = Site::new("", "/", &retained, &Zone::default());
            View::of(site, Client::default(), Page::Site, query, &retained).expect("allowed values")
        };
        for query in ["precision=86400", "precision=86400%4082800"] {
            assert_eq!(of(query).chart.precision.precision.to_string(), "86400@82800");
            assert_eq!(of(query).address(), "/?precision=86400");
        }
        assert_eq!(of("precision=86400%400").address(), "/");
    }

    #[test]
    fn unknown_names_and_empty_values_are_ignored() {
        for query in [
            "precision=7&uniques=yes&forecast=2&sort=size&zone=cet&theme=dark&%ff=%ff",
            "counter=&counter=%00",
            "&&==&?",
            "page=&span=&to=&ago=&against=",
        ] {
            assert_eq!(of(query).address(), "/admin/stats", "{query}");
        }
    }

    #[test]
    fn invalid_numbers_and_times_are_rejected() {
        for (name, values) in [
            ("span", ["x", "0", "-1", "4294967296", "1.5"]),
            ("page", ["x", "0", "-3", "1e3", " 1"]),
            ("ago", ["x", "0", "-1", "1d", "99999999999999999999"]),
            ("to", ["x", "-1", "253402300800", "2026-13-01", "2026-11-20T00:00"]),
            ("against", ["x", "-1", "253402300800", "2026-02-30", "yesterday"]),
        ] {
            for value in values {
                let wrong = try_of(&format!("counter=hits&{name}={value}")).expect_err(value).to_string();
                assert!(wrong.contains(name) && wrong.contains(value), "{wrong}");
            }
        }
    }
}
