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
//! each of the last 60 seconds, since batches are kept for that long (16 MiB for each shard at most). An open visitor
//! bucket takes 16.5 KB, which the threads share.
//!
//! # Time
//!
//! A flush sends counts by the second, 142 of them in a call, which occupies Redis for 2 to 4 ms, so that other clients
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
//! | 100 | 2 | 4 KB | 930 | 0.2 % |
//! | 1,000 | 15 | 39 KB | 9,300 | 3 % |
//! | 2,000 | 29 | 79 KB | 18,600 | 5 % |
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
//! 2. **The flush interval** is the first thing to change where the finest precision is as wide:
//!    [`Builder::flush_interval`](crate::Builder::flush_interval) of 10 s with precisions from 60 s on costs a tenth.
//!    Buckets of a second are still written one by one, and only the wider ones are written less often: 10 seconds of a
//!    counter are then 10 + 3 + 5 + 1 operations and not 90.
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
//! `tests/bench/run scale` measures both: hits by threads, and up to a thousand instances before a cluster of three
//! masters.
