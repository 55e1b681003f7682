//! Exports process metrics via the `metrics` facade.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::Ledger;
use super::health::{Health, SpoolHealth};
use super::metrics::{MetricValue, metrics};
use crate::visits::in_flight::InFlightGauge;

/// Describes all metrics to the current recorder.
pub(crate) fn describe() {
    let spool = Some(SpoolHealth::default());
    let health = Health { since_acknowledged: Some(Duration::ZERO), spool, ..Health::default() };
    for metric in metrics(&Ledger::default(), &health, Some(&InFlightGauge::default())) {
        let unit = match metric.name {
            name if name.ends_with("_seconds") => Unit::Seconds,
            name if name.ends_with("_bytes") => Unit::Bytes,
            _ => Unit::Count,
        };
        match metric.value {
            MetricValue::Counter(_) => describe_counter!(metric.name, unit, metric.help),
            MetricValue::Gauge(_) => describe_gauge!(metric.name, unit, metric.help),
        }
    }
}

pub(crate) fn publish(ledger: &Ledger, health: &Health, in_flight: Option<&InFlightGauge>) {
    for metric in metrics(ledger, health, in_flight) {
        let labels: Vec<_> = metric.label.into_iter().collect();
        match metric.value {
            MetricValue::Counter(count) => counter!(metric.name, &labels).absolute(count),
            MetricValue::Gauge(value) => gauge!(metric.name, &labels).set(value),
        }
    }
}
