//! Counting from logs and topics: what a source is, what it promises, and what its reader has to do.
//!
//! A [source](crate::source) is an ordered log that can be read again from a position: a file, a partition of a topic, a
//! producer that numbers its batches. The store keeps, beside the counts, the position up to which it has counted, and
//! takes a chunk of records only if it begins exactly there. So each record counts once, however often its readers are
//! killed, however many of them have the same log, and also when the store went back to an older state.
//!
//! | records are in | use |
//! |---|---|
//! | access logs | `Import` and `Follower` of `counter-log`; its `LogIndex` refuses logs that were trimmed or merged |
//! | a topic of Kafka | `KafkaConsumer` of `counter-kafka` |
//! | another program, which sends them over HTTP | `api/hits` of `counter-layer`, feature `hits` |
//! | anything else | [`Sources::open`](crate::source::Sources::open), and the loop in the docs of [`source`](crate::source) |
//!
//! # What a reader has to do
//!
//! - Give a log one name in all processes, and never the same name to two logs. A log that begins again at 0 is another.
//! - Read from [`Source::position`](crate::source::Source::position) on. After
//!   [`Commit::Moved`](crate::source::Commit::Moved) that is another place, before or behind.
//! - Decide the same about the same record each time.
//! - Call [`Source::check`](crate::source::Source::check) every few seconds while nothing comes. A store that went back to
//!   an older state, as in a failover, shows itself at the next commit; without records there is none.
//! - Keep the log for longer than the store may be away, and longer than a backup of it is old.
//!   [`Source::lose`](crate::source::Source::lose) notes what the log no longer has; `lost` in the ledger should be 0.
//!
//! # The life of a position
//!
//! The store keeps the position of a source for ever, some 200 bytes in each shard, unless it is told otherwise:
//!
//! | what | by |
//! |---|---|
//! | a source is deleted, such as a topic | [`Sources::forget`](crate::source::Sources::forget), when its readers have ended |
//! | there are ever new ones, such as files that are rotated | [`Sources::keep_for`](crate::source::Sources::keep_for), for longer than a log is kept |
//! | producers of `api/hits` | 90 days, or what `keep_for` says |
//!
//! The time begins with each commit, and the clock of the store ends it; the cleaner removes what is over. A source that
//! comes back later begins at position 0. What was counted before it was forgotten is so old by then that it is told by
//! its time: with `keep_for`, hits that are older than that less two days are `expired` and never counted. So the price of
//! a short life is that late records are not counted. Without `keep_for` nothing expires for that, and
//! after `forget` a log that is read again counts again.
//!
//! # Kafka
//!
//! Each partition is a source with the name `kafka:CLUSTER:TOPIC:PARTITION`, and its positions are offsets. The group only
//! shares the partitions among its members; the offsets that are committed to it are a hint for displays of its lag, and
//! are never read. Two members that both believe to have a partition, as after a long pause, do no harm: the store takes
//! the chunks of one of them. `example-app consume` is a whole program.
//!
//! | what happens | what follows |
//! |---|---|
//! | a consumer is killed | its partitions go to others after the session timeout, 6 s by default; one that starts with the same `instance_id` has them immediately; nothing is lost or counted twice |
//! | the store is away | partitions are paused, the membership is kept, and reading goes on when the store is back |
//! | the store went back | the topic is read again from there, within 5 s where nothing new comes |
//! | compaction and transactions leave offsets without records | nothing; aborted records are left out by the client (`read_committed`) |
//! | partitions are added | the group gives them to a member as soon as its client knows of them, within 5 min (`topic.metadata.refresh.interval.ms`); they are read from their beginning |
//! | retention was faster than the consumer | an error in the log, `lost` in the ledger, and on from the beginning of what there is |
//! | a topic was created again, and is shorter | `run` fails with `LogReplaced`; nothing is counted |
//! | a topic was created again, and is longer by now | nothing shows it: its first records are missing. Set another `Builder::cluster` |
//!
//! # By device, app and address, hour by hour
//!
//! Two families count by dimensions and hours from records, each record once, and no other mechanism is needed: counters
//! whose names have the dimensions, and windows with the record as a token.
//!
//! **Counters** are the one to choose where the dimensions have few values. A record feeds several counters in one chunk,
//! under one fence: one for each dimension, and one for each combination that is asked for. The precision of an hour is
//! kept by default. An address is never a part of a name; it is the visitor of the hits, so that the distinct addresses of
//! each counter are told hour by hour. Here is what the closure of a `KafkaConsumer` pushes, in a reader of one's own:
//!
//! ```
//! use counter_core::source::Commit;
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let records =
//!     [("phone", "shop", "192.0.2.1"), ("phone", "shop", "192.0.2.1"), ("toaster", "shop", "192.0.2.7")];
//! let at = Timestamp::now(); // what the record says
//!
//! // Names are bounded twice: what is not known is `other`, and what has no place is counted under `(other)`.
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
//! let hour = Precision::try_from(3600)?.bucket(at);
//! for (name, count, addresses) in
//!     [("device=phone", 2, 1), ("device=other,app=shop", 1, 1), ("app=shop", 3, 2)]
//! {
//!     let (name, stats) = (name.parse()?, counters.stats());
//!     assert_eq!(stats.series(&name, hour.precision, hour.start..hour.end()).await?.samples[0].count, count);
//!     let seen = stats.uniques(&[name], hour.precision, hour.start..hour.end()).await?;
//!     assert_eq!(seen.visitors, addresses);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Windows** are for what has any number of values, such as a count of each single address. An increment
//! [with a token](crate::window::WindowCounters::increment_once_at) is counted once in its window, and the place of a
//! record is such a token: a reader that reads a record again increments nothing. The position is a source's, which has no
//! hits then, and which moves only when the increments before it are confirmed:
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
//! let at = Timestamp::now(); // what the record says
//!
//! let (store, log) = (MemoryStore::new(), "kafka:main:clicks:0");
//! let counters = Counters::builder(store.clone()).build()?;
//! let requests = WindowCounters::new(store, Window::HOUR).keep(24);
//! let key = Secret::from_bytes([7; 16]).key("requests"); // the same in all processes, and in no store
//! let of = |address: &str| Dimensions::new().visitor("address", key.visitor(&[address.as_bytes()]));
//!
//! // The first reader is killed before its position moves.
//! for is_killed in [true, false] {
//!     let mut source = counters.sources().open(log.parse()?).await?;
//!     assert_eq!(source.position(), 0);
//!     for (offset, address) in (0..).zip(records) {
//!         let token = key.visitor(&[log.as_bytes(), &u64::to_be_bytes(offset)]);
//!         let counted = requests.increment_once_at(&of(address), token, at).await?;
//!         assert_eq!(counted.is_new, is_killed);
//!         source.skip(offset..offset + 1, Skip::Unmatched);
//!     }
//!     if !is_killed {
//!         assert_eq!(source.commit().await?, Commit::Done);
//!     }
//! }
//! let hours = requests.history(&of("192.0.2.1"), Timestamp::now()).await?;
//! assert_eq!(hours.iter().map(|hour| hour.count).sum::<u64>(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! | | counters with dimensions in their names | windows with tokens |
//! |---|---|---|
//! | a record counts once | by the fence of its chunk | by its token, while the window is kept |
//! | it costs | a part of an increment: records of one counter and hour are added up first | a call of its own for each counter, and 70 bytes of the store while the window is kept |
//! | names | [`max_counters`](crate::Builder::max_counters) of them; what is beyond is `(other)` | any number; each expires by itself |
//! | a person | is a visitor: distinct ones are counted | may be a dimension, by a keyed hash that is another in each window |
//! | a late record | counts as long as its bucket is kept | counts as long as its window is kept, and is `WindowClosed` then |
//! | the answer | none | the count after it, for limits |
//! | after a failover | read again from where the store is | the same on one server; where position and window lie in different shards, what one of them lost alone stays lost |
//!
//! Increments of many records may be awaited together, as by `join_all`, before the position moves. A record that adds more
//! than 1 belongs in a counter: a token counts 1.
