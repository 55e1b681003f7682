//! The ledger and the health of the process through the `metrics` facade.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::{Health, Ledger};

const REQUESTS: &str = "access_counter_requests_total";
const HITS: &str = "access_counter_hits_total";
const BOTS: &str = "access_counter_bot_requests_total";
const UNCONFIRMED: &str = "access_counter_unconfirmed_requests_total";
const OVERFLOW: &str = "access_counter_overflow_hits_total";
const LOST: &str = "access_counter_lost_by_server_hits_total";
const PENDING: &str = "access_counter_pending_hits";
const CELLS: &str = "access_counter_pending_cells";
const RETAINED: &str = "access_counter_retained_bytes";
const SILENCE: &str = "access_counter_unacknowledged_seconds";
const FAILING: &str = "access_counter_failing_seconds";
const STALLED: &str = "access_counter_stalled_seconds";
const SKEW: &str = "access_counter_clock_skew_seconds";
const CONNECTIONS: &str = "access_counter_connections_total";

/// Says what each of them means, to the recorder of the moment.
pub(super) fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "Requests by what was decided about them");
    describe_counter!(HITS, Unit::Count, "Hits by what became of them");
    describe_counter!(BOTS, Unit::Count, "Recorded requests that programs made");
    describe_counter!(UNCONFIRMED, Unit::Count, "Recorded requests whose response did not wait any longer");
    describe_counter!(OVERFLOW, Unit::Count, "Hits that went to the counter (other)");
    describe_counter!(LOST, Unit::Count, "Applied hits that the store lost");
    describe_gauge!(PENDING, Unit::Count, "Hits that the store has not acknowledged");
    describe_gauge!(CELLS, Unit::Count, "Counts and sketches in memory that wait for the store");
    describe_gauge!(RETAINED, Unit::Bytes, "Acknowledged batches kept in case the store loses them");
    describe_gauge!(SILENCE, Unit::Seconds, "Time since the store acknowledged a batch");
    describe_gauge!(
        FAILING,
        Unit::Seconds,
        "Time since when no flush has succeeded, 0 when the last one did"
    );
    describe_gauge!(
        STALLED,
        Unit::Seconds,
        "Time for which nobody has begun to send hits that wait, 0 while somebody does"
    );
    describe_gauge!(
        SKEW,
        Unit::Seconds,
        "Seconds by which the clock of this process is ahead of the store's"
    );
    describe_counter!(CONNECTIONS, Unit::Count, "Connections made to servers of the store");
}

pub(super) fn publish(ledger: &Ledger, health: &Health) {
    let Ledger { requests, hits } = ledger;
    for (decision, count) in [
        ("recorded", requests.recorded),
        ("excluded", requests.excluded),
        ("unmatched", requests.unmatched),
        ("ignored_outcome", requests.ignored.outcome),
        ("ignored_prefetch", requests.ignored.prefetch),
    ] {
        counter!(REQUESTS, "decision" => decision).absolute(count);
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
        counter!(HITS, "state" => state).absolute(count);
    }
    counter!(BOTS).absolute(requests.bots);
    counter!(UNCONFIRMED).absolute(requests.unconfirmed);
    counter!(OVERFLOW).absolute(hits.overflow);
    counter!(LOST).absolute(hits.lost_by_server);
    gauge!(PENDING).set(hits.pending as f64);
    gauge!(CELLS).set(health.pending_cells as f64);
    gauge!(RETAINED).set(health.retained_bytes as f64);
    if let Some(since) = health.since_acknowledged {
        gauge!(SILENCE).set(since.as_secs_f64());
    }
    gauge!(FAILING).set(health.failing_for.unwrap_or_default().as_secs_f64());
    gauge!(STALLED).set(health.stalled_for.unwrap_or_default().as_secs_f64());
    gauge!(SKEW).set(health.clock_skew.unwrap_or_default() as f64);
    counter!(CONNECTIONS).absolute(health.connections);
}
