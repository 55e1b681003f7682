//! The state of a page, all of which is in its address, and nowhere else.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{CounterName, Precision, Precisions, Timestamp};

use super::buckets::{self, Buckets};
use super::range::{NamedRange, SPAN};
use super::value::{WrongValue, end, positive};
use crate::access::login::{LOGOUT, LOGOUT_EVERYWHERE, REVOKE_LINKS};
use crate::access::signed::link::SHARED;
use crate::api::parameter;
use crate::dashboard::format::units;
use crate::zone::Zone;
use counter_layer::internal::HITS;

/// The path of the page of alerts.
pub(crate) const ALERTS: &str = "/alerts";

/// Lines that a chart has at most.
pub(crate) const LINES: usize = 6;

/// The state of a page: everything that its address may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The path at which clients find the router.
    pub(crate) mount: String,
    /// The path of its first page.
    pub(crate) first: String,
    pub(crate) page: Page,
    /// The lines of the chart: at least one, the page's own counter first.
    pub(crate) counters: Vec<CounterName>,
    /// The precision of the chart, with as many samples as can be read.
    pub(crate) precision: Retention,
    /// The number of buckets in the chart.
    pub(crate) span: u32,
    /// The end of the chart; `None` follows the time.
    pub(crate) to: Option<Timestamp>,
    /// The time that the chart is compared with, if one was chosen.
    pub(crate) other: Option<Other>,
    /// Unique visitors have a line.
    pub(crate) uniques: bool,
    /// The forecast of the first counter is shown.
    pub(crate) forecast: bool,
    pub(crate) search: String,
    pub(crate) sort: Sort,
    /// The page of the table, from 0.
    pub(crate) leaf: usize,
    /// Times are those of UTC and not those of the viewer.
    pub(crate) utc: bool,
    /// The time zone of the site.
    pub(crate) zone: Zone,
    /// The buckets that days of the zone are sums of; none where they are those of a precision.
    parts: Vec<Retention>,
    /// A session can be ended; no address tells of it.
    pub(crate) logged_in: bool,
    /// There is a page of alerts; no address tells of it either.
    pub(crate) has_alerts: bool,
    /// Notes can be added and removed; no address tells of it either.
    pub(crate) may_note: bool,
    /// The revocations of other instances are not known here; no address tells of it either.
    pub(crate) misses_revocations: bool,
}

/// The pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Site,
    Counter,
}

/// A time that is as long as that of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// So many seconds before it.
    Ago(u64),
    /// With this end, whatever the end of the chart is.
    Until(Timestamp),
}

/// The order of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    #[default]
    Total,
    Uniques,
    Change,
    Lifetime,
}

const SORTS: [(Sort, &str); 5] = [
    (Sort::Name, "name"),
    (Sort::Total, "total"),
    (Sort::Uniques, "uniques"),
    (Sort::Change, "change"),
    (Sort::Lifetime, "lifetime"),
];

impl View {
    /// Reads an address, by the precisions that can be read. Names that do not exist are ignored, and lengths are cut, so an
    /// address that was kept still shows something when the precisions have changed.
    ///
    /// # Errors
    /// Fails when the value of a number or a time is none, as the API does. An empty value is a missing one.
    pub(crate) fn of(
        mount: &str,
        first: &str,
        page: Page,
        query: &str,
        reach: &Precisions,
        zone: &Zone,
    ) -> Result<Self, WrongValue> {
        let mut view = Self {
            mount: mount.to_owned(),
            first: first.to_owned(),
            page,
            counters: Vec::new(),
            precision: parameter::usual(reach),
            span: 0,
            to: None,
            other: None,
            uniques: false,
            forecast: false,
            search: String::new(),
            sort: Sort::default(),
            leaf: 0,
            utc: false,
            zone: zone.clone(),
            parts: if zone.is_utc() { Vec::new() } else { reach.iter().collect() },
            logged_in: false,
            has_alerts: false,
            may_note: false,
            misses_revocations: false,
        };
        let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        for (name, value) in pairs {
            match &*name {
                "counter" => view.add(&value),
                "precision" => {
                    view.precision = parameter::precision(&value, reach).unwrap_or(view.precision);
                }
                "span" => view.span = positive("span", &value)?,
                "to" => view.to = Some(end("to", &value, zone)?),
                "ago" => view.other = Some(Other::Ago(positive("ago", &value)?)),
                "against" => view.other = Some(Other::Until(end("against", &value, zone)?)),
                "uniques" => view.uniques = value == "1",
                "forecast" => view.forecast = value == "1",
                "q" => view.search = value.chars().take(CounterName::MAX_BYTES).collect(),
                "sort" => {
                    let named = SORTS.iter().find(|(_, name)| *name == value);
                    view.sort = named.map_or_else(Sort::default, |(sort, _)| *sort);
                }
                "page" => view.leaf = positive::<usize>("page", &value)? - 1,
                "zone" => view.utc = value == "utc",
                _ => {}
            }
        }
        if view.counters.is_empty() {
            view.add(HITS);
        }
        view.span = match view.span {
            0 => view.usual_span(),
            span => span.clamp(2, view.precision.samples.get().clamp(2, SPAN)),
        };
        Ok(view)
    }

    fn add(&mut self, name: &str) {
        if let Ok(name) = CounterName::new(name)
            && !self.counters.contains(&name)
            && self.counters.len() < LINES
        {
            self.counters.push(name);
        }
    }

    fn usual_span(&self) -> u32 {
        self.precision.samples.get().clamp(2, 60)
    }

    /// The buckets of the chart: within what can be read, and none that has not begun.
    pub(crate) fn buckets(&self, now: Timestamp) -> Buckets {
        self.ending(self.to, now)
    }

    /// The time of the chart.
    pub(crate) fn range(&self, now: Timestamp) -> Range<Timestamp> {
        self.buckets(now).range()
    }

    /// The buckets of the time that the chart is compared with, if one was chosen.
    pub(crate) fn other(&self, now: Timestamp) -> Option<Buckets> {
        let end = match self.other? {
            Other::Ago(seconds) => self.range(now).end.minus(seconds),
            Other::Until(end) => end,
        };
        Some(self.ending(Some(end), now))
    }

    /// As long a time before that of the chart, if it can be read.
    pub(crate) fn before(&self, now: Timestamp) -> Option<Range<Timestamp>> {
        let Buckets { read, starts, end } = self.buckets(now);
        let first = starts.first().copied().unwrap_or(end);
        let start = match self.is_of_zone_days(now) {
            true => starts.iter().fold(first, |day, _| self.zone.day_before(day)),
            false => first.minus(end.as_unix() - first.as_unix()),
        };
        (read.oldest(now) <= start).then_some(start..first)
    }

    /// The length of the chart in words.
    pub(crate) fn length(&self, now: Timestamp) -> String {
        let range = self.range(now);
        match self.is_of_zone_days(now) {
            true => format!("{} d", self.buckets(now).starts.len()),
            false => units::span(range.end.as_unix() - range.start.as_unix()),
        }
    }

    /// Returns `true` if the buckets of the chart are days of the time zone of the site.
    pub(crate) fn is_of_zone_days(&self, now: Timestamp) -> bool {
        let is_part = |part: &Retention| buckets::is_part(part.precision, &self.zone, now);
        self.precision.precision.as_seconds() == 86_400 && self.parts.iter().any(is_part)
    }

    /// The precision that tells how instants of the chart are written.
    pub(crate) fn written(&self, now: Timestamp) -> Precision {
        let precision = self.precision.precision;
        if self.is_of_zone_days(now) { precision.beginning_at(Timestamp::MIN) } else { precision }
    }

    /// The last days of the zone until now, if it has days.
    pub(crate) fn days(&self, days: u32, now: Timestamp) -> Option<Buckets> {
        Buckets::days(&self.zone, &self.parts, days, None, now)
    }

    fn ending(&self, to: Option<Timestamp>, now: Timestamp) -> Buckets {
        let is_of_days = self.precision.precision.as_seconds() == 86_400;
        let days = || Buckets::days(&self.zone, &self.parts, self.span, to, now);
        if let Some(days) = is_of_days.then(days).flatten() {
            return days;
        }
        let precision = self.precision.precision;
        let width = u64::from(precision.as_seconds());
        let oldest = self.precision.oldest(now);
        let latest = precision.bucket(now).end();
        let end = to.map_or(latest, |to| precision.bucket(to).start);
        let length = width * u64::from(self.span);
        let end = end.min(latest).max(oldest.plus(length).min(latest));
        Buckets::of(self.precision, end.minus(length).max(oldest)..end)
    }

    /// The number of buckets to come that are shown beside those of the chart.
    pub(crate) fn horizon(&self) -> usize {
        (self.span as usize / 4).clamp(6, 48)
    }

    /// The address of this view.
    pub(crate) fn address(&self) -> String {
        self.path("")
    }

    /// The path below the router of what a link to this view leads to.
    pub(crate) fn shared_path(&self) -> String {
        match self.page {
            Page::Site => SHARED.to_owned(),
            Page::Counter => format!("/counter{SHARED}"),
        }
    }

    /// The query of such a link, without its end: what the chart shows, all of which it says, so that it stays what it is
    /// when the usual view is another one.
    pub(crate) fn shared_query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.counters.iter().map(|counter| ("counter", &**counter)));
        query.append_pair("precision", &self.precision.precision.as_seconds().to_string());
        query.append_pair("span", &self.span.to_string());
        query.extend_pairs(self.fields(&[
            "counter",
            "precision",
            "span",
            "forecast",
            "q",
            "sort",
            "page",
            "zone",
        ]));
        query.finish()
    }

    /// The address of a page with such a link, for who has a session.
    pub(crate) fn share(&self) -> Option<String> {
        let path = match self.page {
            Page::Site => "/share",
            Page::Counter => "/counter/share",
        };
        self.logged_in.then(|| format!("{}{path}", self.mount))
    }

    /// The address of the parts of this view that move.
    pub(crate) fn parts(&self) -> String {
        self.path("/parts")
    }

    /// The address that ends the session, if there is one.
    pub(crate) fn logout(&self) -> Option<String> {
        self.logged_in.then(|| format!("{}{LOGOUT}", self.mount))
    }

    /// The addresses that end all sessions and all links, if there is a session.
    pub(crate) fn revocations(&self) -> Option<[String; 2]> {
        self.logged_in.then(|| [LOGOUT_EVERYWHERE, REVOKE_LINKS].map(|path| format!("{}{path}", self.mount)))
    }

    /// The address of the page of alerts, where there is one.
    pub(crate) fn alerts(&self) -> Option<String> {
        let zone = if self.utc { "?zone=utc" } else { "" };
        self.has_alerts.then(|| format!("{}{ALERTS}{zone}", self.mount))
    }

    /// The address of this view below the router.
    pub(crate) fn below(&self) -> String {
        let address = self.address();
        address.strip_prefix(&self.mount).unwrap_or_default().to_owned()
    }

    fn path(&self, rest: &str) -> String {
        match self.page {
            Page::Site => self.at(rest),
            Page::Counter => self.at(&format!("/counter{rest}")),
        }
    }

    fn at(&self, path: &str) -> String {
        let fields = self.fields(&[]);
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&fields);
        let query = query.finish();
        let path = if path.is_empty() { self.first.clone() } else { format!("{}{path}", self.mount) };
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    /// The fields of the address of this view, without these: also the ones that a form has to repeat.
    pub(crate) fn fields(&self, without: &[&str]) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        let usual = self.page == Page::Site && self.counters.len() == 1 && *self.counters[0] == *HITS;
        if !usual {
            fields.extend(self.counters.iter().map(|counter| ("counter", counter.to_string())));
        }
        if self.precision.precision.as_seconds() != parameter::USUAL {
            fields.push(("precision", self.precision.precision.as_seconds().to_string()));
        }
        if self.span != self.usual_span() {
            fields.push(("span", self.span.to_string()));
        }
        fields.extend(self.to.map(|to| ("to", to.to_string())));
        match self.other {
            Some(Other::Ago(seconds)) => fields.push(("ago", seconds.to_string())),
            Some(Other::Until(end)) => fields.push(("against", end.to_string())),
            None => {}
        }
        if self.uniques {
            fields.push(("uniques", "1".to_owned()));
        }
        if self.forecast {
            fields.push(("forecast", "1".to_owned()));
        }
        if !self.search.is_empty() {
            fields.push(("q", self.search.clone()));
        }
        if self.sort != Sort::default() {
            fields.push(("sort", self.sort.name().to_owned()));
        }
        if self.leaf > 0 {
            fields.push(("page", (self.leaf + 1).to_string()));
        }
        if self.utc {
            fields.push(("zone", "utc".to_owned()));
        }
        fields.retain(|(name, _)| !without.contains(name));
        fields
    }

    /// The address of a view that differs in this.
    pub(crate) fn but(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut view = self.clone();
        change(&mut view);
        view.address()
    }

    /// The address with another precision, and its usual length.
    pub(crate) fn with_precision(&self, precision: Retention) -> String {
        self.but(|view| {
            view.precision = precision;
            view.span = view.usual_span();
        })
    }

    /// The address with a range that has a name, in place of precision and length.
    pub(crate) fn with_range(&self, range: NamedRange) -> String {
        self.but(|view| (view.precision, view.span) = (range.precision, range.span))
    }

    /// The range that the chart shows, if it has a name.
    pub(crate) fn named(&self, reach: &Precisions) -> Option<NamedRange> {
        NamedRange::all(reach).find(|range| range.precision == self.precision && range.span == self.span)
    }

    /// The address of a counter's own page, which shows the same time.
    pub(crate) fn counter(&self, name: &CounterName) -> String {
        self.but(|view| {
            view.page = Page::Counter;
            view.counters = vec![name.clone()];
            (view.search, view.sort, view.leaf) = (String::new(), Sort::default(), 0);
        })
    }

    /// The address of the site's page, which shows the same time.
    pub(crate) fn site(&self) -> String {
        self.but(|view| {
            view.page = Page::Site;
            view.counters = CounterName::new(HITS).into_iter().collect();
        })
    }

    /// The address with this counter on the chart, or without it where it is; nothing where that cannot be.
    pub(crate) fn toggled(&self, name: &CounterName) -> Option<String> {
        let is_shown = self.counters.contains(name);
        let fixed = self.page == Page::Counter && self.counters.first() == Some(name);
        if fixed || (is_shown && self.counters.len() == 1) || (!is_shown && self.counters.len() == LINES) {
            return None;
        }
        Some(self.but(|view| {
            if is_shown {
                view.counters.retain(|counter| counter != name);
            } else {
                view.counters.push(name.clone());
            }
        }))
    }
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        SORTS.iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> View {
        try_of(query).unwrap_or_else(|wrong| panic!("{query}: {wrong}"))
    }

    fn try_of(query: &str) -> Result<View, WrongValue> {
        View::of("/admin/stats", "/admin/stats", Page::Site, query, &Precisions::default(), &Zone::default())
    }

    #[test]
    fn an_address_says_what_is_not_usual_and_nothing_else() {
        for address in [
            "/admin/stats",
            "/admin/stats?counter=hits&counter=%2Farticles%2F%7Bid%7D",
            "/admin/stats?precision=3600&span=24&to=1795228800&uniques=1",
            "/admin/stats?ago=604800",
            "/admin/stats?to=1795228800&against=1792550400",
            "/admin/stats?q=a%26b&sort=name&page=3&zone=utc",
            "/admin/stats?uniques=1&forecast=1",
        ] {
            let query = address.split_once('?').map_or("", |(_, query)| query);
            assert_eq!(of(query).address(), address);
        }
    }

    #[test]
    fn an_address_names_a_precision_by_its_width_whatever_its_offset() {
        let kept = Precisions::default().utc_offset(3600);
        let of = |query: &str| {
            View::of("", "/", Page::Site, query, &kept, &Zone::default()).expect("allowed values")
        };
        for query in ["precision=86400", "precision=86400%4082800"] {
            assert_eq!(of(query).precision.precision.to_string(), "86400@82800");
            assert_eq!(of(query).address(), "/?precision=86400");
        }
        assert_eq!(of("precision=86400%400").address(), "/");
    }

    #[test]
    fn unknown_names_and_empty_values_are_left_out() {
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
    fn a_number_or_a_time_that_is_none_is_refused() {
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

    #[test]
    fn the_chart_shows_nothing_but_what_is_kept() {
        let now = Timestamp::from_unix(1_795_228_799);
        let kept = of("").precision;
        let all = kept.oldest(now)..Timestamp::from_unix(1_795_228_800);
        for query in
            ["", "span=2", "span=120", "span=4294967295", "to=0", "to=1795228780", "span=9&to=253402300799"]
        {
            let range = of(query).range(now);
            let width = range.end.as_unix() - range.start.as_unix();
            assert!(range.start >= all.start && range.end <= all.end, "{query}: {range:?}");
            assert_eq!(width, u64::from(of(query).span) * 60, "{query}");
        }
        for now in [0, 1, 59, 60].map(Timestamp::from_unix) {
            let range = of("").range(now);
            assert!(range.start < range.end, "{range:?}");
        }
    }

    #[test]
    fn a_time_is_compared_with_another_that_is_as_long_and_kept() {
        let now = Timestamp::from_unix(1_795_228_799);
        let day = 86_400;
        for (query, ago) in [
            ("precision=86400&span=7&ago=604800", Some(7)),
            // Yesterday is the last day that is meant.
            ("precision=86400&span=7&against=2026-11-20", Some(1)),
            ("precision=86400&span=7&to=2026-11-20&against=2026-10-31", Some(20)),
            ("precision=86400&span=7&against=1792550400", Some(32)),
            ("precision=86400&span=7&ago=1&against=", Some(1)),
            ("precision=86400&span=7&ago=&against=", None),
            // The oldest that there is.
            ("precision=86400&span=7&ago=99999999999", Some(113)),
            ("precision=86400&span=7&against=1970-01-02", Some(113)),
        ] {
            let view = of(query);
            let (range, other) = (view.range(now), view.other(now).map(|other| other.range()));
            let width = |range: &Range<Timestamp>| range.end.as_unix() - range.start.as_unix();
            assert!(other.iter().all(|other| width(other) == width(&range)), "{query}");
            let found = other.map(|other| (range.end.as_unix() - other.end.as_unix()) / day);
            assert_eq!(found, ago, "{query}");
        }
    }

    #[test]
    fn a_counter_goes_on_the_chart_and_off_again() {
        let (view, home) = (of(""), CounterName::new("/").expect("a name"));
        assert_eq!(view.toggled(&view.counters[0]), None, "the only one");
        let address = view.toggled(&home).expect("there is room");
        assert_eq!(address, "/admin/stats?counter=hits&counter=%2F");
        assert_eq!(of("counter=hits&counter=%2F").toggled(&home).as_deref(), Some("/admin/stats"));
        let many: String = (0..9).map(|n| format!("counter={n}&")).collect();
        assert_eq!(of(&many).counters.len(), LINES);
        assert_eq!(of(&many).toggled(&home), None);
    }
}
