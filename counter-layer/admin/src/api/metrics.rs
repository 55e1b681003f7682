//! Metrics in the Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};

use axum::response::{IntoResponse, Response};
use counter_alert::{Alerts, RuleStatus};
use counter_core::source::SourceStatus;
use counter_core::visits::{Distribution, Measure, Metric, MetricValue, Unreadable};
use counter_core::{CounterName, Error, Stats};
use counter_layer::internal::HITS;
use futures_util::future::join3;
use http::header::CONTENT_TYPE;

use super::parameter::RequestParts;
use super::route::Route;
use crate::access::Access;
use crate::options::Options;
use crate::problem::warn;

/// The state of the `/metrics` route.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) stats: Stats,
    pub(crate) access: Access,
    pub(crate) options: Options,
}

/// The response text. Series with the same name must be adjacent.
#[derive(Debug, Default)]
struct Page(String);

/// Maximum number of counters with separate series.
const MAX_SERIES: usize = 500;

/// Maximum number of unreadable keys in a response.
const MAX_KEYS: usize = 20;

/// A histogram. We use the OpenTelemetry names if the semantic conventions define them.
struct Histogram {
    measure: Measure,
    name: &'static str,
    help: &'static str,
    /// The smallest bucket bound. Bounds grow by `factor` up to `to`, and must be powers of two, because bins
    /// end at powers of two.
    from: f64,
    to: f64,
    factor: f64,
}

const HISTOGRAMS: [Histogram; 3] = [
    Histogram {
        measure: Measure::Time,
        name: "http_server_request_duration_seconds",
        help: "Time to the response head in this process; the sum is within 5 %",
        from: 1.0 / 1024.0,
        to: 32.0,
        factor: 2.0,
    },
    Histogram {
        measure: Measure::Body,
        name: "access_counter_response_duration_seconds",
        help: "Time to the end of the response in this process; the sum is within 5 %",
        from: 1.0 / 1024.0,
        to: 1024.0,
        factor: 2.0,
    },
    Histogram {
        measure: Measure::Size,
        name: "http_server_response_body_size_bytes",
        help: "Response body size in this process; the sum is within 5 %",
        from: 64.0,
        to: 1_073_741_824.0,
        factor: 4.0,
    },
];

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

pub(crate) fn route(source: Source) -> Route {
    Route::get("/metrics", "Metrics for Prometheus", source, metrics).text("text/plain", "Text format 0.0.4")
}

async fn metrics(RequestParts { state: source, .. }: RequestParts<Source, ()>) -> Response {
    let Source { stats, access, options } = &source;
    let mut page = Page::default();
    page.process(&stats.metrics());
    let failed = access.failed_logins();
    page.one(COUNTER, "access_counter_failed_logins_total", "Failed logins to the admin router", failed);
    page.sources(&stats.sources());
    #[cfg(feature = "hits")]
    if let Some(producers) = &options.producers {
        page.malformed(&producers.malformed());
    }
    for histogram in &HISTOGRAMS {
        page.histogram(histogram, &stats.process_distributions(histogram.measure));
    }
    let (lifetimes, now, alerts) =
        join3(lifetimes(stats), stats.now(), alerts(stats, options.alerts.as_ref())).await;
    page.one(GAUGE, "access_counter_store_up", "Whether the store is readable", u8::from(lifetimes.is_ok()));
    if let Ok(Lifetimes { lifetimes, views, complete, unreadable }) = lifetimes {
        let help = "Lifetime hits of counters, over all instances of the store";
        page.family(COUNTER, "access_counter_lifetime_hits_total", help, COUNTER, &lifetimes);
        if !views.is_empty() {
            let help = "Lifetime views of the site (`hits`) and of pages, over all instances of the store";
            page.family(COUNTER, "access_counter_lifetime_views_total", help, COUNTER, &views);
        }
        let help = "Whether the lifetimes include all counters";
        page.one(GAUGE, "access_counter_lifetimes_complete", help, u8::from(complete));
        let help = "Unreadable entries in the list of counters and lifetimes";
        page.one(GAUGE, "access_counter_unreadable", help, unreadable.len());
        page.name(&unreadable);
    }
    if let Ok(now) = now {
        let help = "People of the last five minutes, over all instances; a visitor of several sites may count once per site";
        page.one(GAUGE, "access_counter_people_now", help, now.people.visitors);
    }
    page.alerts(&alerts);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response()
}

/// Returns the rule states, or an empty list if the store can't be read.
async fn alerts(stats: &Stats, alerts: Option<&Alerts>) -> Vec<RuleStatus> {
    let Some(alerts) = alerts else { return Vec::new() };
    let known = alerts.read().await.inspect_err(|error| warn(stats, error, "cannot read the alert state"));
    known.map(|known| known.rules).unwrap_or_default()
}

/// Lifetime totals, sorted by name. `complete` is false if counters are missing, and `unreadable` lists the
/// keys that can't be read.
struct Lifetimes {
    lifetimes: Vec<(String, u64)>,
    /// Views by counter, for counters that have any.
    views: Vec<(String, u64)>,
    complete: bool,
    unreadable: Vec<Unreadable>,
}

async fn lifetimes(stats: &Stats) -> Result<Lifetimes, Error> {
    let page = stats.list_counters(None, MAX_SERIES).await?;
    let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).collect();
    let names_of_views: Vec<_> = names.iter().filter_map(CounterName::views).collect();
    let all = [&names[..], &names_of_views].concat();
    let (mut lifetimes, mut views, mut unreadable) =
        (Vec::with_capacity(names.len()), Vec::new(), page.unreadable);
    for (name, total) in all.iter().zip(stats.lifetimes_by_counter(&all).await?) {
        match (name.viewed(), total) {
            (None, Ok(total)) => lifetimes.push((name.to_string(), total)),
            (Some(_), Ok(0)) => {}
            (Some(viewed), Ok(total)) => views.push((viewed.to_owned(), total)),
            (_, Err(why)) => unreadable.push(why),
        }
    }
    // If the totals key has the wrong type, all counters report the same key.
    unreadable.sort_by(|one, other| (&one.key, &one.reason).cmp(&(&other.key, &other.reason)));
    unreadable.dedup();
    Ok(Lifetimes { lifetimes, views, complete: page.next.is_none() && unreadable.is_empty(), unreadable })
}

impl Page {
    /// Writes the state of the sources.
    fn sources(&mut self, sources: &[SourceStatus]) {
        let mut family = |kind, name, help, value: fn(&SourceStatus) -> Option<u64>| {
            let values: Vec<_> =
                sources.iter().filter_map(|source| Some((source.name.to_string(), value(source)?))).collect();
            if !values.is_empty() {
                self.family(kind, name, help, "source", &values);
            }
        };
        let help = "Records read by a source";
        family(COUNTER, "access_counter_source_records_total", help, |it| Some(it.ledger.records.read));
        let help = "Malformed records of a source";
        family(COUNTER, "access_counter_source_malformed_total", help, |it| {
            Some(it.ledger.records.malformed)
        });
        let help = "Positions that were deleted from the log before the source read them";
        family(COUNTER, "access_counter_source_lost_total", help, |it| Some(it.ledger.records.lost));
        let help = "Hits of a source acknowledged by the store";
        family(COUNTER, "access_counter_source_hits_total", help, |it| Some(it.ledger.hits.applied));
        let help = "Hits of a source that are older than retention";
        family(COUNTER, "access_counter_source_expired_hits_total", help, |it| Some(it.ledger.hits.expired));
        let help = "Hits of a source rejected because they are ahead of the store clock";
        family(COUNTER, "access_counter_source_ahead_hits_total", help, |it| {
            Some(it.ledger.hits.dropped.ahead)
        });
        let help = "Positions of a source that are not counted yet";
        family(GAUGE, "access_counter_source_lag", help, SourceStatus::lag);
    }

    /// Writes raised, silenced and unknown rules.
    fn alerts(&mut self, rules: &[RuleStatus]) {
        let mut family = |name, help, is_active: fn(&RuleStatus) -> bool| {
            let values: Vec<_> = rules.iter().map(|rule| (&rule.name, u64::from(is_active(rule)))).collect();
            if !values.is_empty() {
                self.family(GAUGE, name, help, "rule", &values);
            }
        };
        let help = "Whether the alert of a rule is raised, over all instances of the store";
        family("access_counter_alert_raised", help, |rule| rule.raised.is_some());
        let help = "Whether a rule is silenced, over all instances of the store";
        family("access_counter_alert_silenced", help, |rule| rule.silenced.is_some());
        let help = "Whether the state of a rule is unknown because data cannot be read";
        family("access_counter_alert_unknown", help, |rule| rule.unread.is_some());
    }

    /// Writes the number of malformed producer records by reason.
    #[cfg(feature = "hits")]
    fn malformed(&mut self, records: &counter_log::MalformedLines) {
        use counter_log::Malformed;

        let values = Malformed::ALL.map(|reason| (reason.name(), records.of(reason)));
        let help = "Malformed records sent to api/hits, by reason";
        self.family(COUNTER, "access_counter_malformed_records_total", help, "reason", &values);
    }

    /// Writes the metrics of this process. These are already grouped by name.
    fn process(&mut self, metrics: &[Metric]) {
        let mut last = "";
        for Metric { name, help, label, value, .. } in metrics {
            let (kind, value) = match value {
                MetricValue::Counter(value) => (COUNTER, value.to_string()),
                MetricValue::Gauge(value) => (GAUGE, value.to_string()),
                _ => continue,
            };
            if last != *name {
                self.head(kind, name, help);
                last = name;
            }
            match label {
                None => self.write(format_args!("{name} {value}\n")),
                Some((label, of)) => {
                    self.write(format_args!("{name}{{{label}=\"{}\"}} {value}\n", escape(of)));
                }
            }
        }
    }

    /// Writes unreadable keys as comments, which scrapers ignore.
    fn name(&mut self, unreadable: &[Unreadable]) {
        for Unreadable { key, reason, .. } in unreadable.iter().take(MAX_KEYS) {
            self.write(format_args!("# unreadable: {key:?}: {}\n", reason.replace(['\n', '\r'], " ")));
        }
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: impl Display) {
        self.head(kind, name, help);
        self.write(format_args!("{name} {value}\n"));
    }

    /// Writes a family with a label.
    fn family(&mut self, kind: &str, name: &str, help: &str, label: &str, values: &[(impl AsRef<str>, u64)]) {
        self.head(kind, name, help);
        for (of, value) in values {
            self.write(format_args!("{name}{{{label}=\"{}\"}} {value}\n", escape(of.as_ref())));
        }
    }

    /// Writes a histogram per page, up to the limit, and a histogram without a route for the remaining
    /// requests. The sum over all of these in a query thus includes all requests.
    fn histogram(&mut self, histogram: &Histogram, distributions: &[(CounterName, Distribution)]) {
        if distributions.iter().any(|(_, distribution)| distribution.count() > 0) {
            self.head("histogram", histogram.name, histogram.help);
        }
        let mut remaining = Distribution::new(histogram.measure, []);
        for (index, (counter, distribution)) in distributions.iter().enumerate() {
            if **counter == *HITS || index >= MAX_SERIES {
                remaining.merge(distribution);
            } else if distribution.count() > 0 {
                self.buckets(histogram, &format!("http_route=\"{}\"", escape(counter)), distribution);
            }
        }
        if remaining.count() > 0 {
            self.buckets(histogram, "", &remaining);
        }
    }

    fn buckets(&mut self, histogram: &Histogram, route: &str, distribution: &Distribution) {
        let Histogram { name, from, to, factor, .. } = histogram;
        let comma = if route.is_empty() { "" } else { "," };
        let (mut end, mut below) = (*from, 0_u64);
        let mut bins = distribution.bins().peekable();
        while end <= *to {
            while let Some((_, count)) = bins.next_if(|(bin, _)| bin.bounds().1 <= end) {
                below = below.saturating_add(count);
            }
            self.write(format_args!("{name}_bucket{{{route}{comma}le=\"{end}\"}} {below}\n"));
            end *= factor;
        }
        let count = distribution.count();
        let sum = distribution.sum();
        self.write(format_args!("{name}_bucket{{{route}{comma}le=\"+Inf\"}} {count}\n"));
        let labels = if route.is_empty() { String::new() } else { format!("{{{route}}}") };
        self.write(format_args!("{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n"));
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("writing to a string never fails");
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
