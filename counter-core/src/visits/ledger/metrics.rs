use std::time::Duration;

use super::Ledger;
use super::health::{ArchiveHealth, Health, SpoolHealth};
use crate::visits::in_flight::InFlightGauge;

/// A metric of this process, to be exported.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Metric name, following Prometheus conventions. Metrics that only differ in their label share a name.
    pub name: &'static str,
    /// Description in a single line.
    pub help: &'static str,
    /// Name and value of the label if there is one.
    pub label: Option<(&'static str, &'static str)>,
    /// Current value.
    pub value: MetricValue,
}

/// The value of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricValue {
    /// A number that can only increase while the process is running.
    Counter(u64),
    /// A number that can go up and down.
    Gauge(f64),
}

/// Returns all metrics of a ledger, a health and a gauge. Metrics with the same name are adjacent.
///
/// Both the `metrics` facade and the page `/metrics` use this list, so that they can't differ.
pub(crate) fn metrics(ledger: &Ledger, health: &Health, in_flight: Option<&InFlightGauge>) -> Vec<Metric> {
    let mut all = Vec::with_capacity(32);
    of_ledger(ledger, &mut all);
    of_health(health, ledger.hits.pending, &mut all);
    if let Some(spool) = &health.spool {
        of_spool(spool, &mut all);
    }
    if let Some(archive) = &health.archive {
        of_archive(*archive, &mut all);
    }
    if let Some(since) = health.since_acknowledged {
        let (name, help) =
            ("access_counter_unacknowledged_seconds", "Time since the store acknowledged a batch");
        add(&mut all, name, help, MetricValue::Gauge(since.as_secs_f64()));
    }
    if let Some(in_flight) = in_flight {
        // The name is defined by the semantic conventions of OpenTelemetry.
        let (name, help) = ("http_server_active_requests", "Requests in flight");
        add(&mut all, name, help, MetricValue::Gauge(in_flight.current() as f64));
        let (name, help) =
            ("http_server_active_requests_max", "Maximum of requests in flight in the last minute");
        add(&mut all, name, help, MetricValue::Gauge(in_flight.max() as f64));
    }
    all
}

fn add(all: &mut Vec<Metric>, name: &'static str, help: &'static str, value: MetricValue) {
    all.push(Metric { name, help, label: None, value });
}

/// Returns a duration in seconds, or 0 if there is none.
fn seconds(time: Option<Duration>) -> MetricValue {
    MetricValue::Gauge(time.unwrap_or_default().as_secs_f64())
}

fn of_ledger(ledger: &Ledger, all: &mut Vec<Metric>) {
    let Ledger { requests, hits } = ledger;
    for (decision, count) in [
        ("recorded", requests.recorded),
        ("excluded", requests.excluded),
        ("unmatched", requests.unmatched),
        ("ignored_outcome", requests.ignored.outcome),
        ("ignored_prefetch", requests.ignored.prefetch),
        ("ignored_own", requests.ignored.own),
    ] {
        let (name, help) = ("access_counter_requests_total", "Requests by decision");
        all.push(Metric {
            name,
            help,
            label: Some(("decision", decision)),
            value: MetricValue::Counter(count),
        });
    }
    for (state, count) in [
        ("applied", hits.applied),
        ("expired", hits.expired),
        ("dropped_wrong_type", hits.dropped.wrong_type),
        ("dropped_not_a_number", hits.dropped.not_a_number),
        ("dropped_out_of_range", hits.dropped.out_of_range),
        ("dropped_ahead", hits.dropped.ahead),
        ("dropped_in_doubt", hits.dropped.in_doubt),
        ("dropped_other", hits.dropped.other),
    ] {
        let (name, help) = ("access_counter_hits_total", "Hits by state");
        all.push(Metric { name, help, label: Some(("state", state)), value: MetricValue::Counter(count) });
    }
    let mut add = |name, help, count| add(all, name, help, MetricValue::Counter(count));
    add("access_counter_bot_requests_total", "Recorded requests by programs", requests.bots);
    add(
        "access_counter_unidentified_requests_total",
        "Recorded requests by people without a visitor",
        requests.unidentified,
    );
    add(
        "access_counter_unconfirmed_requests_total",
        "Recorded requests with a response that stopped waiting for the store",
        requests.unconfirmed,
    );
    add("access_counter_overflow_hits_total", "Hits on the counter (other)", hits.overflow);
    add(
        "access_counter_recovered_hits_total",
        "Recorded hits of exited processes, recovered from a spool",
        hits.recovered,
    );
    add("access_counter_lost_by_server_hits_total", "Applied hits that the store lost", hits.lost_by_server);
}

fn of_health(health: &Health, pending_hits: u64, all: &mut Vec<Metric>) {
    let mut add = |name, help, value| add(all, name, help, value);
    let gauge = MetricValue::Gauge;
    add(
        "access_counter_connections_total",
        "Connections made to store servers",
        MetricValue::Counter(health.connections),
    );
    add(
        "access_counter_pending_hits",
        "Hits that the store has not acknowledged",
        gauge(pending_hits as f64),
    );
    add(
        "access_counter_pending_cells",
        "Unacknowledged counts and sketches in memory",
        gauge(health.pending_cells as f64),
    );
    add(
        "access_counter_retained_bytes",
        "Memory for acknowledged batches, in case the store loses them",
        gauge(health.retained_bytes as f64),
    );
    add(
        "access_counter_failing_seconds",
        "Time for which all flushes have failed, 0 if the last flush succeeded",
        seconds(health.failing_for),
    );
    add(
        "access_counter_stalled_seconds",
        "Time for which pending hits have not been sent, 0 while they are being sent",
        seconds(health.stalled_for),
    );
    add(
        "access_counter_clock_skew_seconds",
        "Seconds by which the clock of this process is ahead of the store clock",
        gauge(health.clock_skew.unwrap_or_default() as f64),
    );
    add(
        "access_counter_hints",
        "Signs of a configuration that results in wrong numbers, as listed in the health",
        gauge(health.hints.len() as f64),
    );
}

fn of_spool(spool: &SpoolHealth, all: &mut Vec<Metric>) {
    let mut add = |name, help, value| add(all, name, help, value);
    let gauge = MetricValue::Gauge;
    add(
        "access_counter_spool_unwritten_hits",
        "Hits that are neither in the spool nor in the store",
        gauge(spool.unwritten as f64),
    );
    add("access_counter_spool_bytes", "Size of the spool file", gauge(spool.bytes as f64));
    add(
        "access_counter_spool_leftovers",
        "Files of exited processes to be sent",
        gauge(spool.leftovers as f64),
    );
    add(
        "access_counter_spool_failing_seconds",
        "Time for which all spool writes have failed, 0 if the last write succeeded",
        seconds(spool.failing_for),
    );
}

fn of_archive(archive: ArchiveHealth, all: &mut Vec<Metric>) {
    let mut add = |name, help, value| add(all, name, help, value);
    let gauge = MetricValue::Gauge;
    add(
        "access_counter_archive_waiting_buckets",
        "Buckets past retention that are waiting for the final copy to the archive, for the precision with the most",
        gauge(archive.waiting_buckets.into()),
    );
    add(
        "access_counter_archive_unreadable_entries",
        "Keys and entries of the near store that could not be read, and are missing in the archive",
        gauge(archive.unreadable as f64),
    );
    if let Some(differing) = archive.differing {
        add(
            "access_counter_archive_differing_values",
            "Values that are lower in the near store than in the archive, as of the last audit",
            gauge(differing as f64),
        );
    }
}
