//! The memory and time that a Redis needs, and the limit that is reached first.
//!
//! The figures are for Redis 7.0 on 64 bits, the seven default precisions with 120 samples of each, and names of about
//! 15 bytes; `BENCHMARKS.md` in the repository lists the command that measured each of them. The work of a Redis depends
//! on how many counters are active, and not on how many requests there are: a second of a counter is one count, whether
//! one hit or a million made it.
//!
//! # Memory
//!
//! | what | bytes in Redis |
//! |---|---|
//! | a counter with a single hit | 2.7 KB |
//! | a counter that is hit all the time | 12 KB, up to 14 KB between two passes of the cleaner |
//! | a sample, where there are many | 12 to 14 |
//! | the visitors of a bucket: 1, 10, 100 of them | 136, 184, 472 |
//! | from some 1,000 new visitors within one flush, or 3 KB of them on | 14.4 KB |
//! | the fence of a process, until it was silent for 30 days, in each shard | about 150 |
//!
//! Where there are many visitors, they take most of the memory: a counter keeps 120 hours and 120 days of them. With 100
//! visitors an hour that is 120 × 0.5 KB and 120 × 14 KB at most, 1.8 MB; with some thousands an hour it is 240 × 14.4 KB,
//! 3.5 MB. To use less, choose fewer visitor precisions, or keep fewer samples of them:
//! [`Builder::visitor_precisions`](crate::Builder::visitor_precisions).
//!
//! | a Redis for | without visitors | with 100 visitors an hour on each counter |
//! |---|---|---|
//! | 100 counters | 1.4 MB | 180 MB |
//! | 2,000 counters, the default limit of a process | 28 MB | 3.6 GB |
//! | 20,000 counters | 280 MB | 36 GB |
//!
//! The hashes are kept as listpacks. More than 512 samples of a precision, or another `hash-max-listpack-entries` of the
//! server, turn them into tables, which take five times as much.
//!
//! A process takes less than 400 bytes for an idle counter. A counter that is hit in each second takes 80 bytes more for
//! each of the last 60 seconds, since batches are kept for that long (16 MiB for each shard at most). The visitors
//! of an open bucket take some ten bytes each, and 16.4 KB at most, which the threads share. A thread that counts takes 64 KB for
//! each 2,048 counters and 17 KB more, at most 257 times.
//!
//! # Time
//!
//! A flush sends the counts of some 125 counters in a call, which occupies Redis for 2 to 5 ms, so that other clients
//! are served in between. A flush nearly always covers two seconds, so a counter that is hit all the time has two counts
//! in it, and takes
//!
//! - an increment for each precision, one more for the second second, and one for its lifetime: 9 operations, of 2 to
//!   3 µs each;
//! - with new visitors, a `PFADD` and an `EXPIREAT` for each visitor precision, and 1 to 4 µs for a register.
//!
//! | active counters in a second | calls | sent | operations | of one core of Redis |
//! |---|---|---|---|---|
//! | 1 | 1 | 0.5 KB | 13 | nothing |
//! | 100 | 1 | 4 KB | 930 | 0.2 % |
//! | 1,000 | 8 | 37 KB | 9,300 | 3 % |
//! | 2,000 | 16 | 74 KB | 18,600 | 5 % |
//!
//! # Where the next limit is
//!
//! A counter costs the same whichever instance sends it, so the cost of a store is
//!
//! > instances × counters active in an interval of each × 9 operations × 2.5 µs ÷ interval
//!
//! One server has one core for this, of which half should remain for readers and the cleaner:
//!
//! | instances | active counters of each | operations a second | one server | each of three masters |
//! |---|---|---|---|---|
//! | 1 | 2,000 | 18,000 | 5 % | 2 % |
//! | 10 | 500 | 45,000 | 11 % | 4 % |
//! | 100 | 100 | 90,000 | 23 % | 8 % |
//! | 1,000 | 20 | 180,000 | 45 % | 15 % |
//! | 1,000 | 100 | 900,000 | too much | 75 %, too much |
//!
//! These are the limits and the ways to raise them, in the order in which they are reached:
//!
//! 1. **Operations of a server.** About 200,000 a second keep half a core busy: 22,000 active counters a second, over
//!    all instances. Requests do not matter here; a hundred times as many cost nothing more.
//! 2. **The flush interval** is the first thing to change: see [below](#which-flush-interval).
//! 3. **Fewer precisions**, or no buckets of 1 and 5 seconds: the cost falls in proportion.
//! 4. **Shards.** A cluster divides the counters by name over 16 shards, so it serves as many times more as it has
//!    masters, up to 16. [`RedisBuilder::shards`](crate::stores::RedisBuilder::shards) sets their number, which has to be chosen
//!    before there are data. One counter belongs to one shard: `hits`, which all instances send, costs a thousand of them
//!    9,000 operations a second in one place.
//! 5. **Calls.** An instance calls each shard for which it has something, once in an interval: 1,000 instances with 16
//!    shards make up to 16,000 calls a second, of about 20 µs in addition to their operations. With many instances and
//!    few counters, use fewer shards.
//! 6. **Connections**: one to each master, from each instance.
//!
//! In a process, threads have stripes of their own: a hit costs the same on one thread and on as many as there are cores.
//! `tests/bench/run scale` measures hits by threads, up to a thousand instances before a cluster of three masters, and
//! fleets of processes up to the number that is too much.
//!
//! # Which flush interval
//!
//! [`Builder::flush_interval`](crate::Builder::flush_interval) is 1 s by default. What is given up with a longer one is
//! freshness, and more of what a killed process had in its memory; exactness is not:
//!
//! - Every hit still counts once, in the bucket of its own second. Seconds and minutes come to the store later, not coarser.
//! - The [ledger](crate::Ledger) and [`Health::pending`](crate::Health::pending) tell at each moment what is not there yet.
//! - Charts, alerts and other readers of the store see a hit up to an interval later, and then a whole interval at once.
//! - A process that is killed loses up to an interval, or 100 ms with a `spool`. One that is shut down sends the rest.
//! - A process takes some 40 bytes more for each counter and second that wait: 1.2 MB for 1,000 counters and 30 s.
//! - [`Health::stalled_for`](crate::Health::stalled_for) is told after five intervals.
//!
//! The buckets of a second are written one by one, while all others are written once for the whole interval. So a longer
//! interval saves most where there are no seconds. Operations a second for 10,000 requests a second on a hundred routes and
//! `hits`, by `tests/bench/run flush`, and how many the method of the book takes for each of them:
//!
//! | interval | the seven precisions | book's : these | five precisions, from 60 s on | book's : these |
//! |---|---|---|---|---|
//! | 1 s | 936 | 299 | 612 | 327 |
//! | 5 s | 287 | 974 | 124 | 1,616 |
//! | 10 s | 204 | 1,373 | 63 | 3,185 |
//! | 30 s | 151 | 1,860 | 22 | 9,040 |
//!
//! - **One to ten instances**: the defaults.
//! - **Up to a hundred**, or a store that others need as well: 10 s. It takes less than a thousandth of the book's operations
//!   at 10,000 requests a second, and less than a quarter of those with 1 s.
//! - **More**: 30 s, and no precision below a minute:
//!
//! ```
//! use std::time::Duration;
//! use counter_core::{Counters, MemoryStore, Precisions};
//!
//! let minutes = Precisions::default();
//! let minutes = Precisions::new(minutes.iter().filter(|kept| kept.precision.as_seconds() >= 60))?;
//! let counters = Counters::builder(MemoryStore::new())
//!     .flush_interval(Duration::from_secs(30))
//!     .precisions(minutes)
//!     .build()?;
//! assert_eq!(counters.stats().grid().counts.to_string(), "60, 300, 3600, 18000, 86400");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Stay well below the time for which the finest precision is kept, by default 120 s for seconds: a bucket that is older than
//! that when it arrives is not written any more.
//!
//! # A thousand instances, and ten thousand
//!
//! 1,000 instances of 10,000 requests a second each, ten million together, on 1,000 routes, and then ten times as many
//! instances. These are extrapolations, which nobody has measured. They assume that
//!
//! - each instance has hits on all of its 1,000 counters in every interval, which is the worst case: a counter that has no
//!   hits in an instance costs nothing there;
//! - no visitors are told apart: a counter with new visitors takes four operations more in a flush;
//! - an operation takes 3.5 µs, as it did before a fleet of 16 processes on a machine that had other work as well, and half of
//!   a master's core is kept free: that is 143,000 operations a second of each;
//! - a counter takes as many operations a second as each of the 101 in the table above: 9.3, 2.1 and 1.6 with seven precisions,
//!   and 0.63 and 0.23 with five;
//! - names spread evenly over the masters, with about four [shards](crate::stores::RedisBuilder::shards) for each. Of 1,000 names
//!   the fullest of 17 masters has about 1.3 times the mean, which the free half covers.
//!
//! | | operations a second | masters | of ten thousand instances | masters |
//! |---|---|---|---|---|
//! | seven precisions, every 1 s | 9,300,000 | 66 | 93,000,000 | 651, and 1,024 shards are too few for them |
//! | seven precisions, every 10 s | 2,100,000 | 15 | 21,000,000 | 147 |
//! | seven precisions, every 30 s | 1,600,000 | 12 | 16,000,000 | 112 |
//! | five, from 60 s on, every 10 s | 630,000 | 5 | 6,300,000 | 45 |
//! | five, from 60 s on, every 30 s | 230,000 | 2 | 2,300,000 | 17 |
//!
//! So the last row it is, with 16 shards for a thousand instances, and with 64 where they may become ten thousand. The rest is
//! small. For ten thousand instances and 64 shards,
//!
//! - calls: 10,000 × 64 ÷ 30 s are 21,000 a second of about 20 µs, less than half a core of 17;
//! - connections: 10,000 to each master, which is what `maxclients` allows by default, so it has to be raised;
//! - fences: 10,000 × 64 × 150 bytes are 96 MB, over all masters, beside counters that take as much as those of one instance;
//! - `hits`, which is one counter and so in one place: 10,000 × 0.23 operations a second, 1 % of a core.
//!
//! # The same from topics
//!
//! A consumer of Kafka (`counter-kafka`) folds what it reads of a partition before it writes, so the store pays for partitions
//! and not for instances. `BENCHMARKS.md` has 1.04 µs of processor for a record of 60 bytes, brokers and consumer together (1.38
//! with visitors), and 281,000 records a second from each of four partitions on two cores. This assumes
//!
//! - a record for each request, three replicas, and brokers that take as much as those in memory did: real ones write to disks
//!   and to each other, so measure yours;
//! - half of all cores free, and each partition as fast as those four;
//! - all 1,000 counters in each partition, and a commit of each partition every second or every ten (`commit_interval` of the
//!   builder), with as many operations as a flush of that interval takes.
//!
//! | | ten million records a second | a hundred million |
//! |---|---|---|
//! | MB a second into the brokers, with replicas | 600, 1,800 | 6,000, 18,000 |
//! | partitions | 36 | 360 |
//! | cores of brokers and consumers, with visitors | 21, 28 | 208, 276 |
//! | operations of the store a second, every 1 s | 335,000: 3 masters | 3,350,000: 24 masters |
//! | the same every 10 s | 76,000: 1 master | 756,000: 6 masters |
//!
//! Where all records have visitors, Redis took 1.07 µs for each: at ten million a second that is 11 cores, so 22 masters. A layer
//! that counts in the process costs less than a topic: `tests/bench/run processor` measures it. Topics are for records that are
//! in one anyway, and for counting them again.
