//! A Kafka consumer for access counters: each record of a topic counts exactly once.
//!
//! A [`KafkaConsumer`] is a member of a consumer group. It turns every record of a topic into hits by a closure,
//! and counts each partition as a [source](counter_core::source) of its own: the position up to which a partition
//! is counted stands in the store, beside the counts, and moves with them in one step. So every record counts
//! once, whatever happens to consumers, brokers and the store: a consumer that is killed, one that was paused and
//! still believes to have a partition that another has taken over, a reply that is lost, a store that went back
//! to an older state. The offsets that are committed to the group are a hint for displays of its lag; none is ever read.
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
//! # What is read
//!
//! - One consumer reads one topic. For several topics, run several consumers, of one group or more, for example with
//!   `tokio::join!`; `example-app consume` does so.
//! - Records of transactions count when they are committed (`read_committed`). Compaction and the markers of
//!   transactions leave gaps between offsets, which mean nothing.
//! - What retention removed before it was read is logged, and counted as
//!   [`lost`](counter_core::source::SourceRecords::lost); then the partition is read on from its beginning. Keep
//!   records for longer than an outage of the store may last.
//! - A topic that was deleted and created again under the same name begins at offset 0 again. Where the log ends
//!   before the position that the store has, `run` fails with [`RunError::LogReplaced`]. Once the new log is as
//!   long as the old one was, nothing shows the difference: the ids that Kafka gives to topics are not in reach of the
//!   bindings of librdkafka. Give a topic that was created again another [name](Builder::cluster).
//! - Partitions that are added to a topic are read from their beginning as soon as the client knows of them, within 5 min
//!   (`topic.metadata.refresh.interval.ms`), wherever the topic was [begun](Start).
//! - Of two members with the same [`instance_id`](Builder::instance_id), Kafka lets the one that came last go on; the
//!   other is fenced, counts what it has read, and `run` fails with [`RunError::Client`]. Brokers that let both go on do no
//!   harm either: the store takes the chunks of one of them.
//! - Where nothing is read, the store is asked every 5 s whether it is still where it was, so that what a failover took
//!   back is read again also of a topic that is quiet.
//!
//! # What tests show, and what they do not
//!
//! The tests run on the brokers that librdkafka has in memory and on Tansu, a broker of its own. They show kills, pauses,
//! rebalances, leaders that move, gaps between offsets, retention, logs that are shorter, partitions that come, and members
//! with the same id. What neither broker does is not shown:
//!
//! - The isolation of transactions that were aborted. librdkafka leaves their records out by what a broker tells of them,
//!   and librdkafka's own brokers tell nothing, nor is Tansu known to. That markers and aborted records take offsets is shown.
//! - Partitions that are added to a topic which has some: neither has the request. The tests add those of a topic that a
//!   consumer waits for, and those that came after a topic was begun at its end.
//! - The moment in which a coordinator fences a member by itself: librdkafka's brokers take two members of one id for two,
//!   and are told to answer one of them so; Tansu gives both the same partitions, and each record counts once.
//!
//! # What it costs
//!
//! Nothing is spawned: the future of [`run`](KafkaConsumer::run) does all the work, and librdkafka has threads of
//! its own for the network, one for each broker. At most [`Builder::prefetch`] bytes of records are fetched ahead,
//! 16 MiB by default. While the store is away, the partitions are paused and membership in the group is kept.

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
