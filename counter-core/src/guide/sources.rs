//! Counting from logs and topics: what a source is, what it promises, and what its reader has to do.
//!
//! A [source](crate::source) is an ordered log that can be read again from a position: a file, a partition of a topic, a
//! producer that numbers its batches. The store keeps, beside the counts, the position up to which it has counted, and
//! takes a chunk of records only if it begins exactly there. So each record counts once, however often its readers are
//! killed, however many of them have the same log, and also when the store went back to an older state.
//!
//! | records are in | use |
//! |---|---|
//! | access logs | `Import` and `Follower` of `counter-layer`, feature `log` |
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
//! | a consumer is killed | its partitions go to others after the session timeout; nothing is lost or counted twice |
//! | the store is away | partitions are paused, the membership is kept, and reading goes on when the store is back |
//! | the store went back | the topic is read again from there, within 5 s where nothing new comes |
//! | compaction and transactions leave offsets without records | nothing; aborted records are left out by the client (`read_committed`) |
//! | partitions are added | the group gives them to a member as soon as its client knows of them, within 5 min (`topic.metadata.refresh.interval.ms`); they are read from their beginning |
//! | retention was faster than the consumer | an error in the log, `lost` in the ledger, and on from the beginning of what there is |
//! | a topic was created again, and is shorter | `run` fails with `LogReplaced`; nothing is counted |
//! | a topic was created again, and is longer by now | nothing shows it: its first records are missing. Set another `Builder::cluster` |
//!
//! A sum by dimensions and hours, such as visits by device and application, is a counter of a name that has the
//! dimensions (`device=phone,app=7`) by the precision of an hour: it is counted in the same chunk, under the same fence.
//! Windows choose their window by the store's clock when they are added to, and have no
//! fence of a source: they are for limits, and not for records that come late.
