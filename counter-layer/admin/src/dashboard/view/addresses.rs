//! The URL of a view, and URLs of related pages.

use counter_core::CounterName;

use super::chart::MAX_LINES;
use super::table::TableView;
use super::view::{Page, SERVICE, SHARED_PART, SharedPart, View, WHOLE_PAGE};
use crate::access::login::{LOGOUT, LOGOUT_EVERYWHERE, REVOKE_LINKS};
use crate::access::signed::link::SHARED;
use crate::api::site::SITE;

/// The path of the alerts page.
pub(crate) const ALERTS: &str = "/alerts";
/// The paths of the files of a view.
pub(crate) const LIST_CSV: &str = "/list.csv";
pub(crate) const CHART_CSV: &str = "/chart.csv";
pub(crate) const CHART_SVG: &str = "/chart.svg";

impl View {
    /// Returns the URL of this view.
    pub(crate) fn address(&self) -> String {
        self.path("")
    }

    /// Returns the path to share this view, relative to the router.
    pub(crate) fn shared_path(&self) -> String {
        format!("{}{SHARED}", self.page.path())
    }

    /// Returns the query to share this view, without expiry and signature. This includes the counters, so that the view
    /// will not change if the defaults change.
    pub(crate) fn shared_query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.chart.counters.iter().map(|counter| ("counter", &**counter)));
        query.extend_pairs(self.fields(&["counter", "forecast", "zone", "view"]));
        query.extend_pairs((self.shared == SharedPart::Page).then_some((SHARED_PART, WHOLE_PAGE)));
        query.finish()
    }

    /// Returns the URL of the page that creates a link to this view, if it has a chart and the client has a session.
    pub(crate) fn share(&self) -> Option<String> {
        (self.client.is_logged_in && self.page != Page::List).then(|| self.path("/share"))
    }

    /// Returns the URL to poll the live parts.
    pub(crate) fn parts(&self) -> String {
        if self.page == Page::List { self.address() } else { self.path("/parts") }
    }

    /// Returns the URL to end the session, if the client has a session.
    pub(crate) fn logout(&self) -> Option<String> {
        self.client.is_logged_in.then(|| format!("{}{LOGOUT}", self.site.mount))
    }

    /// Returns the URLs to end all sessions and to revoke all links, if the client has a session.
    pub(crate) fn revocations(&self) -> Option<[String; 2]> {
        self.client
            .is_logged_in
            .then(|| [LOGOUT_EVERYWHERE, REVOKE_LINKS].map(|path| format!("{}{path}", self.site.mount)))
    }

    /// Returns the URL of the alerts page, if it exists.
    pub(crate) fn alerts(&self) -> Option<String> {
        let zone = if self.is_local { "?zone=local" } else { "" };
        self.site.has_alerts.then(|| format!("{}{ALERTS}{zone}", self.site.mount))
    }

    /// Returns the URL of a file of this view.
    pub(crate) fn download(&self, path: &str) -> String {
        self.at(path)
    }

    /// Returns the URL of this view relative to the router.
    pub(crate) fn below(&self) -> String {
        let address = self.address();
        address.strip_prefix(&self.site.mount).unwrap_or_default().to_owned()
    }

    fn path(&self, rest: &str) -> String {
        self.at(&format!("{}{rest}", self.page.path()))
    }

    /// Returns the URL of this view with a custom period, to which the script appends the ends.
    pub(crate) fn zoom(&self) -> String {
        self.with_fields(
            self.page.path(),
            &[&self.fields(&["period", "from", "to", "by"])[..], &[("period", "custom".to_owned())]].concat(),
        )
    }

    fn at(&self, path: &str) -> String {
        self.with_fields(path, &self.fields(&[]))
    }

    /// Returns an empty URL in a shared view.
    fn with_fields(&self, path: &str, fields: &[(&'static str, String)]) -> String {
        if self.is_shared {
            return String::new();
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields);
        let query = query.finish();
        let path =
            if path.is_empty() { self.site.first.clone() } else { format!("{}{path}", self.site.mount) };
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    /// Returns the query parameters of this view except for `without`, also used as hidden form fields.
    pub(crate) fn fields(&self, without: &[&str]) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        if self.page == Page::Counter || !self.chart.shows_only_hits() {
            fields.extend(self.chart.counters.iter().map(|counter| ("counter", counter.to_string())));
        }
        self.chart.write(&self.site.zone, &mut fields);
        self.table.write(&mut fields);
        fields.extend(self.of_site.clone().map(|name| (SITE, name)));
        fields.extend(self.is_local.then(|| ("zone", "local".to_owned())));
        fields.extend(self.is_service.then(|| ("view", SERVICE.to_owned())));
        fields.retain(|(name, _)| !without.contains(name));
        fields
    }

    /// Returns the URL of this view with a change applied.
    pub(crate) fn address_with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut view = self.clone();
        change(&mut view);
        view.address()
    }

    /// Returns the URL of a counter page for the same period.
    pub(crate) fn counter(&self, name: &CounterName) -> String {
        self.address_with(|view| {
            view.page = Page::Counter;
            view.chart.counters = vec![name.clone()];
            view.table = TableView::default();
        })
    }

    /// Returns the URL of the site page for the same period.
    pub(crate) fn site(&self) -> String {
        self.address_with(|view| {
            (view.page, view.table) = (Page::Site, TableView::default());
            view.chart.show_hits();
        })
    }

    /// Returns the view of the list of values of a label, or of pages: of the counter of the page, or of the site.
    pub(crate) fn list(&self, label: Option<&str>) -> Self {
        let mut view = self.clone();
        match self.page {
            Page::Site => view.chart.show_hits(),
            Page::Counter | Page::List => view.chart.counters.truncate(1),
        }
        (view.page, view.chart.forecast) = (Page::List, false);
        view.table = TableView { label: label.map(str::to_owned), ..TableView::default() };
        view
    }

    /// Returns the URL with this counter added to or removed from the chart, or `None` if this is not
    /// possible.
    pub(crate) fn toggled(&self, name: &CounterName) -> Option<String> {
        let is_shown = self.chart.counters.contains(name);
        let fixed = self.page == Page::Counter && self.chart.counters.first() == Some(name);
        if fixed
            || self.is_shared
            || (is_shown && self.chart.counters.len() == 1)
            || (!is_shown && self.chart.counters.len() == MAX_LINES)
        {
            return None;
        }
        Some(self.address_with(|view| {
            if is_shown {
                view.chart.counters.retain(|counter| counter != name);
            } else {
                view.chart.counters.push(name.clone());
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests;
    use super::*;

    #[test]
    fn addresses_contain_only_non_default_values() {
        for address in [
            "/admin/stats?period=today",
            "/admin/stats?counter=hits&counter=%2Farticles%2F%7Bid%7D&period=7d",
            "/admin/stats?period=12mo&by=week&compare=year&show=people",
            "/admin/stats?period=custom&from=2026-11-16&to=2026-11-20&by=300",
            "/admin/stats?period=custom&from=1795228740&to=1795228800&compare=none",
            "/admin/stats?period=30d&show=views&forecast=1",
            "/admin/stats/list?period=1h&label=source&q=a%26b&sort=name&page=3&zone=local&view=service",
        ] {
            let (path, query) = address.split_once('?').unwrap_or((address, ""));
            let page = if path.ends_with("list") { Page::List } else { Page::Site };
            assert_eq!(tests::of(page, query).address(), address);
        }
    }

    #[test]
    fn a_list_belongs_to_the_site_or_to_the_counter_of_a_page() {
        let site = of("counter=%2F&counter=hits&period=7d&show=people&forecast=1");
        assert_eq!(
            site.list(Some("source")).address(),
            "/admin/stats/list?period=7d&show=people&label=source"
        );
        let page = tests::of(Page::Counter, "counter=%2F&counter=hits&period=7d");
        let list = page.list(Some("source"));
        assert_eq!(list.address(), "/admin/stats/list?counter=%2F&period=7d&label=source");
        assert_eq!((list.parts(), list.site()), (list.address(), "/admin/stats?period=7d".to_owned()));
    }

    fn of(query: &str) -> View {
        tests::of(Page::Site, query)
    }

    #[test]
    fn counters_can_be_toggled_on_the_chart() {
        let (view, home) = (of(""), CounterName::new("/").expect("a name"));
        assert_eq!(view.toggled(&view.chart.counters[0]), None, "the only one");
        let address = view.toggled(&home).expect("there is room");
        assert_eq!(address, "/admin/stats?counter=hits&counter=%2F&period=today");
        assert_eq!(
            of("counter=hits&counter=%2F").toggled(&home).as_deref(),
            Some("/admin/stats?period=today")
        );
        let many: String = (0..9).map(|n| format!("counter={n}&")).collect();
        assert_eq!(of(&many).chart.counters.len(), MAX_LINES);
        assert_eq!(of(&many).toggled(&home), None);
    }
}
