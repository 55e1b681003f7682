//! The numbers in the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use axum::response::{IntoResponse, Response};
use counter_core::visits::Unreadable;
use counter_core::{Error, Health, Ledger, Stats};
use http::header::CONTENT_TYPE;

use super::parameter::Asked;
use super::route::Route;
use crate::admin::access::Access;

/// The source of the answer to a scrape.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) stats: Stats,
    pub(crate) access: Access,
}

/// The page, one family after the other.
#[derive(Debug, Default)]
struct Page(String);

/// Counters that have a series of their own.
const COUNTERS: usize = 500;

/// The number of unreadable keys that an answer names.
const NAMED: usize = 20;

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

pub(crate) fn route(source: Source) -> Route {
    Route::get("/metrics", "Ledger, health and lifetimes for Prometheus", source, metrics)
        .text("text/plain", "Text format 0.0.4")
}

async fn metrics(Asked { state: source, .. }: Asked<Source, ()>) -> Response {
    let Source { stats, access } = source;
    let mut page = Page::default();
    page.process(&stats.ledger(), &stats.health());
    let failed = access.failed_logins();
    page.one(COUNTER, "access_counter_failed_logins_total", "Requests that failed to get in here", failed);
    let lifetimes = lifetimes(&stats).await;
    page.one(
        GAUGE,
        "access_counter_store_up",
        "Whether the store could be read just now",
        u8::from(lifetimes.is_ok()),
    );
    if let Ok(Lifetimes { lifetimes, complete, unreadable }) = lifetimes {
        let help = "Everything that counters ever counted, on all instances over the store";
        page.family(COUNTER, "access_counter_lifetime_hits_total", help, COUNTER, &lifetimes);
        let help = "Whether every counter is among the lifetimes";
        page.one(GAUGE, "access_counter_lifetimes_complete", help, u8::from(complete));
        let help = "What of the list of counters and their lifetimes could not be read just now";
        page.one(GAUGE, "access_counter_unreadable", help, unreadable.len());
        page.name(&unreadable);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response()
}

/// The first counters by name, whether these are all, and what could not be read.
struct Lifetimes {
    lifetimes: Vec<(String, u64)>,
    complete: bool,
    unreadable: Vec<Unreadable>,
}

async fn lifetimes(stats: &Stats) -> Result<Lifetimes, Error> {
    let page = stats.known(None, COUNTERS).await?;
    let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).collect();
    let totals = stats.lifetimes_of_each(&names).await?;
    let (mut lifetimes, mut unreadable) = (Vec::with_capacity(names.len()), page.unreadable);
    for (name, total) in names.iter().zip(totals) {
        match total {
            Ok(total) => lifetimes.push((name.to_string(), total)),
            Err(why) => unreadable.push(why),
        }
    }
    // Of totals of another type each counter would name the same key.
    unreadable.sort_by(|one, other| (&one.key, &one.reason).cmp(&(&other.key, &other.reason)));
    unreadable.dedup();
    Ok(Lifetimes { lifetimes, complete: page.next.is_none() && unreadable.is_empty(), unreadable })
}

impl Page {
    /// Under the names that `counter-core` has for them behind the `metrics` facade.
    fn process(&mut self, ledger: &Ledger, health: &Health) {
        let (requests, hits) = (ledger.requests, ledger.hits);
        let by_decision = [
            ("recorded", requests.recorded),
            ("excluded", requests.excluded),
            ("unmatched", requests.unmatched),
            ("ignored_outcome", requests.ignored.outcome),
            ("ignored_prefetch", requests.ignored.prefetch),
        ];
        let help = "Requests by what was decided about them";
        self.family(COUNTER, "access_counter_requests_total", help, "decision", &by_decision);
        let by_state = [
            ("applied", hits.applied),
            ("expired", hits.expired),
            ("dropped_wrong_type", hits.dropped.wrong_type),
            ("dropped_not_a_number", hits.dropped.not_a_number),
            ("dropped_out_of_range", hits.dropped.out_of_range),
            ("dropped_ahead", hits.dropped.ahead),
            ("dropped_in_doubt", hits.dropped.in_doubt),
            ("dropped_other", hits.dropped.other),
        ];
        self.family(COUNTER, "access_counter_hits_total", "Hits by what became of them", "state", &by_state);
        for (name, help, value) in [
            ("bot_requests_total", "Recorded requests that programs made", requests.bots),
            (
                "unconfirmed_requests_total",
                "Recorded requests whose response did not wait any longer",
                requests.unconfirmed,
            ),
            ("overflow_hits_total", "Hits that went to the counter (other)", hits.overflow),
            ("lost_by_server_hits_total", "Applied hits that the store lost", hits.lost_by_server),
            ("connections_total", "Connections made to servers of the store", health.connections),
        ] {
            self.one(COUNTER, &format!("access_counter_{name}"), help, value);
        }
        let (cells, retained) = (health.pending_cells, health.retained_bytes);
        let help = "Hits that the store has not acknowledged";
        self.one(GAUGE, "access_counter_pending_hits", help, hits.pending);
        let help = "Counts and sketches in memory that wait for the store";
        self.one(GAUGE, "access_counter_pending_cells", help, cells);
        let help = "Acknowledged batches kept in case the store loses them";
        self.one(GAUGE, "access_counter_retained_bytes", help, retained);
        if let Some(since) = health.since_acknowledged {
            let help = "Time since the store acknowledged a batch";
            self.one(GAUGE, "access_counter_unacknowledged_seconds", help, since.as_secs_f64());
        }
        let help = "Time since when no flush has succeeded, 0 when the last one did";
        let failing = health.failing_for.unwrap_or_default().as_secs_f64();
        self.one(GAUGE, "access_counter_failing_seconds", help, failing);
        let help = "Time for which nobody has begun to send hits that wait, 0 while somebody does";
        let stalled = health.stalled_for.unwrap_or_default().as_secs_f64();
        self.one(GAUGE, "access_counter_stalled_seconds", help, stalled);
        let help = "Seconds by which the clock of this process is ahead of the store's";
        self.one(GAUGE, "access_counter_clock_skew_seconds", help, health.clock_skew.unwrap_or_default());
    }

    /// In comments, which a scrape passes over.
    fn name(&mut self, unreadable: &[Unreadable]) {
        for Unreadable { key, reason, .. } in unreadable.iter().take(NAMED) {
            self.write(format_args!("# unreadable: {key:?}: {}\n", reason.replace(['\n', '\r'], " ")));
        }
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: impl Display) {
        self.head(kind, name, help);
        self.write(format_args!("{name} {value}\n"));
    }

    /// A family with one label.
    fn family(&mut self, kind: &str, name: &str, help: &str, label: &str, values: &[(impl AsRef<str>, u64)]) {
        self.head(kind, name, help);
        for (of, value) in values {
            self.write(format_args!("{name}{{{label}=\"{}\"}} {value}\n", escape(of.as_ref())));
        }
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("a text takes all");
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
