//! Counting from logs and topics: how a source works, and what its reader must do.
//!
//! A [source](crate::source) is an ordered log that can be read again from a position, e.g. a file, a
//! partition of a topic, or a producer that numbers its batches. The store keeps the position up to which the
//! log has been counted, next to the counts, and it only accepts a chunk of records that starts exactly at
//! this position. Thus a record counts just once, even if readers are killed, if there is more than one
//! reader for the same log, or if the store went back to an older state.
//!
//! | records are in | use |
//! |---|---|
//! | access logs | `Import` and `Follower` from `counter-log`; its `LogIndex` rejects logs that have been trimmed at the start or merged |
//! | a Kafka topic | `KafkaConsumer` from `counter-kafka` |
//! | another program that sends them over HTTP | `api/hits` from `counter-admin`, feature `hits` |
//! | any other log | [`Sources::open`](crate::source::Sources::open), and the loop in the docs of [`source`](crate::source) |
//!
//! # What a reader must do
//!
//! - Use the same name for a log in all processes, and never use that name for another log. A log that
//!   restarts at 0 is another log.
//! - Read from [`Source::position`](crate::source::Source::position). After
//!   [`Commit::Moved`](crate::source::Commit::Moved), you need to continue from a new position, either
//!   forward or back.
//! - Always make the same decision for the same record.
//! - While you are waiting for records, call [`Source::check`](crate::source::Source::check) every few
//!   seconds. If the store went back to an older state, e.g. in a failover, this is only detected by a commit
//!   or a check.
//! - Retain the log for longer than the store might be unavailable, and for longer than the age of the oldest
//!   backup of the store. If records are missing from the log, report them to
//!   [`Source::lose`](crate::source::Source::lose); `lost` in the ledger should be 0.
//!
//! # The lifetime of a position
//!
//! By default, the store will keep the position of a source forever, which needs about 200 bytes per shard.
//! To remove positions:
//!
//! | if | use |
//! |---|---|
//! | a source was deleted, e.g. a topic | [`Sources::forget`](crate::source::Sources::forget), after its readers have stopped |
//! | new sources are created all the time, e.g. rotated files | [`Sources::expire_after`](crate::source::Sources::expire_after), with a longer time than logs are retained |
//! | there are producers for `api/hits` | 90 days by default, or `expire_after` |
//!
//! A commit restarts this lifetime. It ends by the store clock, and the cleaner then removes the position. If
//! the source returns later, it will start at position 0. This doesn't count the old hits again, because with
//! `expire_after`, hits older than the lifetime less two days are `expired`. Keep in mind that a short lifetime
//! will also drop late records. Without `expire_after`, hits do not expire like this, and if a log is read again
//! after `forget`, it will count again.
//!
//! # Kafka
//!
//! A partition is a source with the name `kafka:CLUSTER:TOPIC:PARTITION`, and its positions are offsets. The
//! consumer group is only used to assign partitions to members. Offsets are committed to the group so that
//! tools can show the lag, but the consumer doesn't read them. It is not a problem if two members believe
//! that they own the same partition, e.g. after a long pause, because the store will only accept the chunks
//! from one of them. For a small program, see `examples/orders.rs` in `counter-kafka`; for a complete one, see
//! `example-app consume`.
//!
//! | event | effect |
//! |---|---|
//! | a consumer is killed | the partitions are assigned to other members after the session timeout, 6 s by default, or immediately to a new consumer with the same `instance_id`; records are neither lost nor counted twice |
//! | the store is unavailable | partitions are paused without leaving the group, and resumed when the store is available again |
//! | the store went back to an older state | the topic is read again from that position, within 5 s if there are no new records |
//! | offsets without records due to compaction or transactions | none; the client skips aborted records (`read_committed`) |
//! | partitions are added | the group assigns them when the client of a member sees them, within 5 min (`topic.metadata.refresh.interval.ms`); they are read from the start |
//! | records expire before the consumer has read them | an error in the log and `lost` in the ledger; the consumer continues from the oldest available record |
//! | a topic was recreated and is shorter | `run` fails with `LogReplaced`; no records are counted |
//! | a topic was recreated and has become longer | not detected: the first records are skipped. Set another `Builder::cluster` |
//!
//! # By device, app and address, per hour
//!
//! There are two ways to count records by dimension and hour so that a record counts once: counters with the
//! dimensions in their names, or windows with the record as a token.
//!
//! **Counters** are the better choice if the dimensions have few values. A record is added to more than one
//! counter in the same chunk and under the same fence, i.e. a counter for each dimension, and a counter for
//! each combination that you need. The precision of an hour is one of the defaults. An address must never be
//! part of a name. Use the address as the visitor of the hits instead, so that you get the distinct addresses
//! per counter and hour. This is the code for your own reader; in a `KafkaConsumer`, the closure would push
//! the same hits:
//!
//! ```
//! use counter_core::source::Commit;
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let records =
//!     [("phone", "shop", "192.0.2.1"), ("phone", "shop", "192.0.2.1"), ("toaster", "shop", "192.0.2.7")];
//! let at = Timestamp::now(); // from the record
//!
//! // Unknown devices are counted as `other`, and names above the limit as `(other)`.
//! let counters = Counters::builder(MemoryStore::new()).max_counters(10_000).build()?;
//! let known = |device| if ["phone", "tv", "desktop"].contains(&device) { device } else { "other" };
//! let recorder = counters.recorder();
//! let mut source = counters.sources().open("kafka:main:clicks:0".parse()?).await?;
//! let (key, _epoch) = counters.sources().visitor_key(at).await?;
//! for (offset, (device, app, address)) in (0..).zip(records) {
//!     let (device, visitor) = (known(device), key.visitor(&[address.as_bytes()]));
//!     let names = [format!("device={device}"), format!("app={app}"), format!("device={device},app={app}")];
//!     let hits = names.map(|name| recorder.counter(&name).hit().visitor(Some(visitor)));
//!     source.record(offset..offset + 1, at, &hits);
//! }
//! assert_eq!(source.commit().await?, Commit::Done);
//!
//! let hour = Precision::HOUR.bucket(at);
//! for (name, count, addresses) in
//!     [("device=phone", 2, 1), ("device=other,app=shop", 1, 1), ("app=shop", 3, 2)]
//! {
//!     let (name, stats) = (name.parse()?, counters.stats());
//!     assert_eq!(stats.series(&name, hour.precision, hour.start..hour.end()).await?.samples[0].count, count);
//!     let uniques = stats.uniques(&[name], hour.precision, hour.start..hour.end()).await?;
//!     assert_eq!(uniques.visitors, addresses);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Windows** can be used for dimensions with any number of values, e.g. to count the requests from an
//! address. An increment [with a token](crate::window::WindowCounters::increment_once_at) is only counted
//! once in its window. If you use the position of the record as the token, a reader can read a record again
//! without incrementing again. The position is stored as a source without hits, and must only be moved after
//! the increments before it have been confirmed:
//!
#![cfg_attr(feature = "window", doc = "```")]
#![cfg_attr(not(feature = "window"), doc = "```text")]
//! use counter_core::source::Commit;
//! use counter_core::visits::Skip;
//! use counter_core::window::{Dimensions, Window, WindowCounters};
//! use counter_core::{Counters, MemoryStore, Secret, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let records = ["192.0.2.1", "192.0.2.7", "192.0.2.1"];
//! let at = Timestamp::now(); // from the record
//!
//! let (store, log) = (MemoryStore::new(), "kafka:main:clicks:0");
//! let counters = Counters::builder(store.clone()).build()?;
//! let requests = WindowCounters::new(store, Window::HOUR).keep(24);
//! let key = Secret::from_bytes([7; 16]).key("requests"); // the same in all processes, but not in the store
//! let dimensions = |address: &str| Dimensions::new().visitor("address", key.visitor(&[address.as_bytes()]));
//!
//! // The first reader is killed before its position moves.
//! for is_killed in [true, false] {
//!     let mut source = counters.sources().open(log.parse()?).await?;
//!     assert_eq!(source.position(), 0);
//!     for (offset, address) in (0..).zip(records) {
//!         let token = key.visitor(&[log.as_bytes(), &u64::to_be_bytes(offset)]);
//!         let counted = requests.increment_once_at(&dimensions(address), token, at).await?;
//!         assert_eq!(counted.is_new, is_killed);
//!         source.skip(offset..offset + 1, Skip::Unmatched);
//!     }
//!     if !is_killed {
//!         assert_eq!(source.commit().await?, Commit::Done);
//!     }
//! }
//! let hours = requests.history(&dimensions("192.0.2.1"), Timestamp::now()).await?;
//! assert_eq!(hours.iter().map(|hour| hour.count).sum::<u64>(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! | | counters with dimensions in their names | windows with tokens |
//! |---|---|---|
//! | a record counts once | due to the fence of the chunk | due to its token, as long as the window is retained |
//! | cost | less than an increment, because records of the same counter and hour are added up first | a call for each counter, and 70 bytes in the store as long as the window is retained |
//! | names | up to [`max_counters`](crate::Builder::max_counters); the rest counts as `(other)` | any number; windows expire automatically |
//! | a person | is a visitor: distinct visitors are counted | may be a dimension, via a keyed hash that changes with the window |
//! | a late record | counts if its bucket is still retained | counts if its window is still retained; otherwise `WindowClosed` |
//! | return value | none | the new count, e.g. for limits |
//! | after a failover | the log is read again from the position in the store | the same on a single server; but if position and window are in separate shards and only the shard of the window has lost data, these increments are lost |
//!
//! You can await the increments of many records concurrently, e.g. with `join_all`, before you move the
//! position. If a record should add more than 1, use a counter, because a token always counts as 1.
