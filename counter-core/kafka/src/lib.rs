//! A Kafka consumer for access counters: each record of a topic counts exactly once.
//!
//! A [`KafkaConsumer`] is a member of a consumer group. Your closure turns each record of a topic into hits, and each
//! partition is a [source](counter_core::source): the store keeps the position of the partition next to the counts and
//! updates both atomically. So each record counts once, even if a consumer is killed, a paused consumer still reads a
//! partition that another one has taken over, a reply is lost, or the store returns to an older state. Offsets are
//! committed to the group only to display its lag; the consumer never reads them.
//!
//! ```no_run
//! use std::num::NonZeroU32;
//!
//! use counter_core::{Counters, MemoryStore, Timestamp};
//! use counter_kafka::{Decision, KafkaConsumer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let recorder = counters.recorder();
//! let consumer = KafkaConsumer::builder("localhost:9092", "orders", "order-counter").build(
//!     counters.sources(),
//!     move |record, hits| {
//!         let (Some(at), Some(_)) = (record.timestamp(), record.value()) else { return Decision::Malformed };
//!         hits.push(recorder.counter("orders").hit().weight(NonZeroU32::MIN));
//!         Decision::Counted(at)
//!     },
//! )?;
//! consumer.run(async { _ = tokio::signal::ctrl_c().await }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it reads
//!
//! - One consumer reads one topic. For several topics, run several consumers, in one group or in several, for example with
//!   `tokio::join!`, as `example-app consume` does.
//! - Records of transactions count when the transaction is committed (`read_committed`). Compaction and transaction
//!   markers leave gaps between offsets; the consumer skips them.
//! - If retention removes records before they are read, the consumer logs the gap, counts it as
//!   [`lost`](counter_core::source::SourceRecords::lost), and continues at the first offset of the partition. Set a
//!   retention that is longer than any outage of the store.
//! - A topic that is deleted and created again under the same name starts at offset 0. If the log ends before the position
//!   in the store, `run` fails with [`RunError::LogReplaced`]. After the new log has grown past that position, the consumer
//!   cannot detect the change, because the bindings of librdkafka do not expose topic ids. Choose another
//!   [cluster name](Builder::cluster) for a topic that was created again.
//! - New partitions of a topic are read from their first offset, even if the topic was [started](Start) at its end. The
//!   client discovers them within 5 min (`topic.metadata.refresh.interval.ms`).
//! - If two members have the same [`instance_id`](Builder::instance_id), Kafka keeps the one that joined last. The other is
//!   fenced: it counts the records that it has read, and `run` fails with [`RunError::Client`]. If a broker keeps both,
//!   each record still counts once, because the store accepts the chunks of only one of them.
//! - Every 5 s the consumer checks the positions of idle partitions in the store, so records that a failover removed are
//!   read again even if the topic is quiet.
//! - After a consumer is killed, the group waits for its [session](Builder::session_timeout) to expire before it assigns
//!   the partitions to others: 6 s by default. Brokers add 3 s if the group has no other member
//!   (`group.initial.rebalance.delay.ms`).
//!
//! # What the tests cover
//!
//! The tests run on the in-memory brokers of librdkafka and on Tansu, an independent broker. They cover kills, pauses,
//! rebalances, leader changes, gaps between offsets, retention, truncated logs, new partitions, and duplicate instance ids.
//! Neither broker supports the following, so no test covers it:
//!
//! - Isolation of aborted transactions. librdkafka drops their records based on a list that the broker sends; its in-memory
//!   brokers send none, and Tansu is not known to. The tests do cover the offsets that markers and aborted records occupy.
//! - Adding partitions to a topic that already has some: neither broker implements the request. The tests create the
//!   partitions of a topic while a consumer is waiting for it, and after the topic was started at its end.
//! - Fencing by the coordinator. The in-memory brokers treat two members with one id as two members, so the tests make them
//!   return the error; Tansu assigns the same partitions to both, and each record counts once.
//!
//! # What it costs
//!
//! The future of [`run`](KafkaConsumer::run) does all the work and spawns no tasks; librdkafka runs one network thread per
//! broker. The consumer prefetches up to [`Builder::prefetch`] KiB of records, 16 MiB by default. While the store is
//! unavailable, it pauses the partitions and stays in the group.

mod error;
mod membership;
mod client;
mod keys;
mod record;
mod decider;
mod outage;
mod rewind;
mod partition;
mod partitions;
mod builder;
mod opener;
mod consumer;

pub use builder::{Builder, Start};
pub use consumer::KafkaConsumer;
pub use error::{BuildError, RunError};
pub use record::{Decision, Record};
