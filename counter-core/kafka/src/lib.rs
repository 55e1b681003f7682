//! A Kafka consumer for access counters that counts each record of a topic exactly once.
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
//! A [`KafkaConsumer`] is a member of a consumer group. Your closure turns the records of a topic into hits,
//! and each partition is a [source](counter_core::source): the store keeps the partition position together
//! with the counts and updates both atomically. This means that a record will be counted once, even if a
//! consumer is killed, if a paused consumer still reads a partition that has been reassigned, if a reply is
//! lost, or if the store returns to an older state. Offsets are also committed to the group, but just to
//! display the lag; the consumer never reads them.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `ssl` | TLS and SASL/SCRAM, by the OpenSSL of the system |
//! | `zstd` | zstd compression; gzip, snappy and lz4 are always supported |
//!
//! # Behavior
//!
//! - A consumer reads a single topic. If you need more topics, run more consumers, either in the same group
//!   or in different groups, e.g. with `tokio::join!` like `example-app consume`.
//! - Transactional records are counted when the transaction is committed (`read_committed`). Compaction and
//!   transaction markers leave gaps between offsets, which are skipped.
//! - If retention removes unread records, the consumer logs the gap, counts it as
//!   [`lost`](counter_core::source::SourceRecords::lost), and continues at the first offset of the partition.
//!   The retention should be longer than any outage of the store.
//! - If you delete and recreate a topic with the same name, it starts at offset 0. If the log ends before the
//!   position in the store, `run` fails with [`RunError::LogReplaced`]. When the new log has grown beyond
//!   this position, the consumer can't detect the change, because the librdkafka bindings don't expose topic
//!   ids. You need to choose a new [cluster name](Builder::cluster) for a recreated topic.
//! - New partitions of a topic are read from their first offset, even if the topic was [started](Start) at
//!   the end. The client will discover them within 5 min (`topic.metadata.refresh.interval.ms`).
//! - If two members have the same [`instance_id`](Builder::instance_id), Kafka fences the older member: it
//!   will still count the records that it has already read, but `run` fails with [`RunError::Client`]. If a
//!   broker keeps both members, records are still counted once, because the store only accepts chunks from
//!   one of them.
//! - The consumer checks the store positions of idle partitions every 5 s. If a failover loses counted
//!   records, these will be read again, even on a quiet topic.
//! - If a consumer is killed, the partitions are only reassigned when the [session](Builder::session_timeout)
//!   expires: 6 s by default. Brokers add 3 s if the group is empty (`group.initial.rebalance.delay.ms`).
//!
//! # Test coverage
//!
//! The tests run on the in-memory brokers of librdkafka and on Tansu, an independent broker. They cover
//! kills, pauses, rebalances, leader changes, offset gaps, retention, truncated logs, new partitions, and
//! duplicate instance ids. The following is not covered, because neither broker supports it:
//!
//! - Isolation of aborted transactions. librdkafka drops these records based on a list from the broker, which
//!   the in-memory brokers don't send. Tansu is not known to send it either. However, the tests do cover the
//!   offsets used by markers and aborted records.
//! - Adding partitions to a topic that already has partitions, which neither broker implements. Instead, the
//!   tests create the partitions while a consumer is waiting for the topic, and when the topic has already
//!   been started at the end.
//! - Fencing by the coordinator. The in-memory brokers treat members with the same id as distinct, so the
//!   tests inject the error. Tansu assigns the same partitions to both members, and records are still counted
//!   once.
//!
//! # Cost
//!
//! All work is done by the [`run`](KafkaConsumer::run) future, which doesn't spawn any tasks; librdkafka uses
//! a network thread per broker. The consumer prefetches up to [`Builder::prefetch`] KiB of records, 16 MiB by
//! default. If the store is unavailable, it will pause the partitions but stay in the group.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
