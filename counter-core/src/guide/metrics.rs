//! Metrics: the ledger and the health, exported via the `metrics` facade.
//!
//! Every flush exports the [`Ledger`](crate::Ledger) and the [`Health`](crate::Health) to the recorder that your application has
//! installed for the `metrics` crate:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_requests_total` | `decision` | requests by decision; the sum is `observed` |
//! | `access_counter_hits_total` | `state` | hits by state; the sum, plus the pending hits, is `recorded` |
//! | `access_counter_bot_requests_total` | | recorded requests from bots |
//! | `access_counter_unidentified_requests_total` | | recorded requests from people, without a visitor |
//! | `access_counter_unconfirmed_requests_total` | | recorded requests whose response stopped waiting for the store |
//! | `access_counter_overflow_hits_total` | | hits counted under `(other)` |
//! | `access_counter_recovered_hits_total` | | recorded hits of ended processes, recovered from a [spool](crate::guide::spool) |
//! | `access_counter_lost_by_server_hits_total` | | applied hits that the store lost |
//! | `access_counter_pending_hits` | | hits that are not acknowledged yet |
//! | `access_counter_pending_cells` | | counts and sketches in memory that wait for the store |
//! | `access_counter_retained_bytes` | | size of the acknowledged batches retained for a replay |
//! | `access_counter_unacknowledged_seconds` | | time since the last acknowledgement |
//! | `access_counter_failing_seconds` | | time since flushes started to fail; 0 if the last flush succeeded |
//! | `access_counter_stalled_seconds` | | time for which hits have been pending without being sent; 0 while they are sent |
//! | `access_counter_clock_skew_seconds` | | seconds by which the local clock is ahead of the store clock; 0 if unknown |
//! | `access_counter_hints` | | signs of a setup that gives wrong numbers: see [`Health::hints`](crate::Health::hints) |
//! | `access_counter_connections_total` | | connections made to servers |
//! | `access_counter_spool_unwritten_hits` | | with a spool: hits that are neither in the spool nor in the store |
//! | `access_counter_spool_bytes` | | with a spool: file size |
//! | `access_counter_spool_leftovers` | | with a spool: files of ended processes that still have to be sent |
//! | `access_counter_spool_failing_seconds` | | with a spool: time since writes started to fail; 0 if the last write succeeded |
//! | `http_server_active_requests` | | with a [gauge](crate::Recorder::in_flight): requests in flight |
//! | `http_server_active_requests_max` | | with a gauge: maximum in the last minute |
//!
//! Operations that call the store directly are exported too. Since they don't belong to a [`Counters`](crate::Counters), they
//! will not be shown on the `/metrics` page of an admin router:
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `access_counter_operations_total` | `operation`, `outcome` | operations of [unique counters](crate::unique::UniqueCounter), [window counters](crate::window::WindowCounters) and entities, by outcome |
//! | `access_counter_operation_seconds` | `operation` | their duration, including retries |
