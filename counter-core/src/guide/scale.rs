//! Memory and time needed by Redis, and which limit is reached first.
//!
//! The figures were measured with 64-bit Redis 7.0, the seven default precisions with 120 samples, and names
//! of about 15 bytes. To repeat a measurement, use the command from `BENCHMARKS.md` in the repository. The
//! load on Redis depends on the number of active counters, but not on the number of requests: the hits of a
//! counter in a given second are a single count, even if there are a million hits.
//!
//! # Memory
//!
//! | data | bytes in Redis |
//! |---|---|
//! | a counter with a single hit | 2.7 KB |
//! | a counter with hits in every second | 12 KB, up to 14 KB between cleaning passes |
//! | a sample, if there are many | 12 to 14 |
//! | 1, 10 or 100 visitors in a bucket | 136, 184, 472 |
//! | more than about 1,000 new visitors in a flush, or more than 3 KB of them | 14.4 KB |
//! | the fence of a process, until it has been idle for 30 days, for each shard | about 150 |
//!
//! If you have many visitors, they will need most of the memory, because a counter retains the visitors of
//! 124 hours and 124 days. With 100 visitors an hour, this is up to 124 × 0.5 KB plus 124 × 14 KB, i.e. 1.8
//! MB. With thousands of visitors an hour, this is 248 × 14.4 KB, i.e. 3.6 MB. To reduce the memory, use
//! fewer visitor precisions or retain fewer samples: see
//! [`Builder::visitor_precisions`](crate::Builder::visitor_precisions).
//!
//! | counters | memory without visitors | memory with 100 visitors per counter and hour |
//! |---|---|---|
//! | 100 | 1.4 MB | 180 MB |
//! | 2,000, the default limit of a process | 28 MB | 3.6 GB |
//! | 20,000 | 280 MB | 36 GB |
//!
//! A label that counts [people](crate::visits::LabelValues::people) has a sketch per value and day. If 2,000 values are seen every
//! day, as often as in a Zipf distribution, their people of 124 days take 70 MB with 20,000 people a day, 96 MB with 100,000, and
//! 194 MB with 400,000: most sketches are small, and a key with its name takes more than the sketch.
//!
//! The hashes should be stored as listpacks. If a precision has more than 512 samples, or if you reduce
//! `hash-max-listpack-entries` on the server, hashes will be converted to tables, which need five times the
//! memory.
//!
//! In the process, an idle counter needs less than 400 bytes. If a counter has hits in every second, this
//! will add 80 bytes for each of the last 60 seconds, because the batches are retained for that time (up to
//! 16 MiB for a shard). A visitor in an open bucket needs about ten bytes, up to 16.4 KB for a bucket; this
//! memory is shared between threads. The people of the last minutes need 128 KB. A thread that counts needs 64 KB for every 2,048 counters plus 17 KB,
//! but only for up to 257 threads.
//!
//! # Time
//!
//! Redis handles about 125 counters in a call. This takes 2 to 5 ms, so that other clients can be served
//! between the calls. Since a flush nearly always covers two seconds, a busy counter has two counts to send.
//! This needs
//!
//! - an increment for each precision, an additional increment for the other second, and an increment for the
//!   lifetime: 9 operations at about 2 µs;
//! - for new visitors, a `PFADD` and an `EXPIREAT` for each visitor precision, and 1 to 4 µs for a register.
//!
//! | active counters per second | calls | sent | operations | load on a Redis core |
//! |---|---|---|---|---|
//! | 1 | 1 | 0.5 KB | 13 | negligible |
//! | 100 | 1 | 4 KB | 930 | 0.2 % |
//! | 1,000 | 8 | 37 KB | 9,300 | 2 % |
//! | 2,000 | 16 | 74 KB | 18,600 | 4 % |
//!
//! # Which limit comes next
//!
//! A counter costs the same in any instance, so the load on the store is
//!
//! > instances × active counters of an instance per interval × 9 operations × 2 µs ÷ interval
//!
//! A server uses a single core for this, and half of that core should be left to readers and the cleaner:
//!
//! | instances | active counters of an instance | operations per second | a single server | each of three masters |
//! |---|---|---|---|---|
//! | 1 | 2,000 | 18,000 | 4 % | 1 % |
//! | 10 | 500 | 45,000 | 9 % | 3 % |
//! | 100 | 100 | 90,000 | 18 % | 6 % |
//! | 1,000 | 20 | 180,000 | 36 % | 12 % |
//! | 1,000 | 100 | 900,000 | too much | 60 %, too much |
//!
//! You will reach the limits in this order:
//!
//! 1. **Operations on a server.** About 250,000 operations per second keep half a core busy. This corresponds
//!    to 28,000 active counters per second across all instances. The number of requests doesn't matter, even
//!    if there are a hundred times more.
//! 2. **The flush interval** should be the first setting to change: see [below](#which-flush-interval).
//! 3. **Fewer precisions**, e.g. without the buckets of 1 and 5 seconds. The cost is proportional to the
//!    number of precisions.
//! 4. **Shards.** In a cluster, the counters are distributed by name to 16 shards, so the capacity grows with
//!    the number of masters, up to 16. To change the number of shards, use
//!    [`RedisBuilder::shards`](crate::stores::RedisBuilder::shards) before you store any data. A counter is
//!    always in a single shard. Since all instances send the counter `hits`, its shard has to handle 9,000
//!    operations per second if there are a thousand instances.
//! 5. **Calls.** For any shard with pending hits, an instance makes a call in each interval. With 1,000
//!    instances and 16 shards, this can be 16,000 calls per second, which take about 20 µs in addition to the
//!    operations. If you have many instances but few counters, use fewer shards.
//! 6. **Connections.** An instance opens a connection to each master.
//!
//! In the process, threads use separate stripes, so that a hit doesn't become more expensive with the number
//! of cores. Run `tests/bench/run scale` to measure hits by threads, up to a thousand instances on a cluster
//! of three masters, or a fleet of processes up to the limit of the store.
//!
//! # Which flush interval
//!
//! [`Builder::flush_interval`](crate::Builder::flush_interval) is 1 s by default. If you increase the
//! interval, data will be less fresh, and more hits can be lost if the process is killed, but the counts will
//! still be exact:
//!
//! - A hit still counts once, in the bucket of the second in which it happened. Seconds and minutes will be
//!   sent later, but with the same resolution.
//! - The number of pending hits can always be read from the [ledger](crate::Ledger) or from
//!   [`Health::pending`](crate::Health::pending).
//! - Readers of the store, e.g. charts and alerts, will see hits up to an interval later, and then all hits
//!   of the interval.
//! - If the process is killed, up to an interval is lost, or 100 ms with a `spool`. After a clean shutdown,
//!   the remaining hits are in the store.
//! - The process needs about 40 more bytes for each pending second of a counter: 1.2 MB for 1,000 counters
//!   and 30 s.
//! - [`Health::stalled_for`](crate::Health::stalled_for) is reported after five intervals.
//!
//! Buckets of a second must be written individually, but wider buckets are written just once for the whole
//! interval. Thus a longer interval saves more without the buckets of seconds. The following table is for
//! 10,000 requests per second to a hundred routes plus `hits`, measured by `tests/bench/run flush`. The ratio
//! is relative to the method of the book:
//!
//! | interval | operations per second, seven precisions | ratio | five precisions, from 60 s | ratio |
//! |---|---|---|---|---|
//! | 1 s | 936 | 1/299 | 612 | 1/327 |
//! | 5 s | 287 | 1/974 | 124 | 1/1,616 |
//! | 10 s | 204 | 1/1,373 | 63 | 1/3,185 |
//! | 30 s | 151 | 1/1,860 | 22 | 1/9,040 |
//!
//! - **Up to ten instances**: use the defaults.
//! - **Up to a hundred instances**, or a store that is also used by other services: use 10 s. At 10,000
//!   requests per second, this needs less than 1/1,000 of the operations of the book, and less than a quarter
//!   of the operations with 1 s.
//! - **More instances**: use 30 s, and don't use precisions below a minute:
//!
//! ```
//! use std::time::Duration;
//! use counter_core::{Counters, MemoryStore, Precisions};
//!
//! let minutes = Precisions::default();
//! let minutes = Precisions::new(minutes.iter().filter(|item| item.precision.as_seconds() >= 60))?;
//! let counters = Counters::builder(MemoryStore::new())
//!     .flush_interval(Duration::from_secs(30))
//!     .precisions(minutes)
//!     .build()?;
//! assert_eq!(counters.stats().grid().counts.to_string(), "60, 300, 3600, 18000, 86400");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The interval should be much shorter than the retention of the finest precision, which is 120 s for seconds
//! by default. If a bucket is older than this when it is sent, it will not be written.
//!
//! # Thousands of instances
//!
//! What would you need for 1,000 instances with 10,000 requests per second, i.e. ten million in total, on
//! 1,000 routes? And for ten times the number of instances? The following numbers have not been measured, but
//! are extrapolated under these assumptions:
//!
//! - All 1,000 counters have hits in any interval of any instance. This is the worst case, because a counter
//!   without hits doesn't cost anything in that instance.
//! - Visitors are not counted. A counter with new visitors would need four more operations in a flush.
//! - An operation takes 2 µs. `tests/bench/run scale fleet` measured 1.5 to 2.0 µs. Half of a core is kept free, so
//!   a master can execute 250,000 operations per second.
//! - A counter needs as many operations per second as in the table above (which is for 101 counters): 9.3,
//!   2.1 or 1.6 with seven precisions, and 0.63 or 0.23 with five.
//! - The names are spread evenly to the masters, with about four
//!   [shards](crate::stores::RedisBuilder::shards) per master. With 1,000 names, the fullest of 10 masters
//!   has less than 1.3 times the mean, for which there is enough reserve.
//!
//! | | operations per second | masters | for ten thousand instances | masters |
//! |---|---|---|---|---|
//! | seven precisions, every 1 s | 9,300,000 | 38 | 93,000,000 | 372, but this would need more than 1,024 shards |
//! | seven precisions, every 10 s | 2,100,000 | 9 | 21,000,000 | 84 |
//! | seven precisions, every 30 s | 1,600,000 | 7 | 16,000,000 | 64 |
//! | five, from 60 s, every 10 s | 630,000 | 3 | 6,300,000 | 26 |
//! | five, from 60 s, every 30 s | 230,000 | 1 | 2,300,000 | 10 |
//!
//! So you should use the settings of the last row, with 16 shards for a thousand instances, or with 64 shards
//! if you might grow to ten thousand. The remaining costs are small. For ten thousand instances and 64
//! shards:
//!
//! - calls: 10,000 × 64 ÷ 30 s, i.e. 21,000 per second at about 20 µs, need less than half a core out of 10;
//! - connections: 10,000 to a master. This is the default limit of `maxclients`, so it must be increased;
//! - fences: 10,000 × 64 × 150 bytes are 96 MB in total; the counters need the same memory as for a single
//!   instance;
//! - `hits`, which is a single counter and therefore in a single shard: 10,000 × 0.23 operations per second,
//!   less than 1 % of a core.
//!
//! # Three regions
//!
//! Each region should count into its own Redis, and a [fleet](crate::fleet) adds them up when they are read. For three regions
//! with 1,000 instances each, the tables above apply to each region: with the settings of the last row, this needs one
//! master per region. Between regions, there are only reads:
//!
//! - A read of the fleet is a read of each region, at the same time. It takes as long as the slowest region, or until the
//!   [timeout](crate::fleet::Fleet::timeout). It needs a little more than three times the operations, because sketches are
//!   fetched and merged in the process.
//! - An open dashboard reads every one to five seconds. This does not depend on the number of instances.
//! - A partition between two regions delays reads, but no request and no flush.
//!
//! With three servers and all processes on a machine with two cores, `tests/bench/run scale regions 200 10` measured the following
//! (200 counters with ten hits per second each, and a flush every 10 s). The sums of the fleet were exact.
//!
//! | instances per region | operations per second and region | page of a region | page of the fleet | operations of a page |
//! |--:|--:|--:|--:|--:|
//! | 0 | 0 | 22 ms | 49 ms | 321; 1,278 |
//! | 1 | 598 | 24 ms | 56 ms | 321; 1,278 |
//! | 4 | 1,747 | 23 ms | 43 ms | 321; 1,278 |
//! | 16 | 6,410 | 25 ms | 58 ms | 321; 1,278 |
//!
//! The time of a page does not depend on the number of instances, so 1,000 instances per region should not change it. We have
//! not measured that. With a delay of 100 ms for each round trip to one of two regions, a page took 0.33 s, i.e. three round
//! trips to the most distant region.
//!
//! # The same load from topics
//!
//! A Kafka consumer (`counter-kafka`) folds the records of a partition before it writes to the store, so the
//! load on the store depends on the number of partitions instead of instances. According to `BENCHMARKS.md`,
//! a record of 60 bytes costs 1.0 µs of CPU time for brokers and consumer (1.1 with visitors), and four
//! partitions on two cores deliver 281,000 records per second each. The following table assumes that
//!
//! - every request is a record, there are three replicas, and brokers cost the same as the measured brokers,
//!   which only used memory. Since real brokers write to disks and replicate, you should measure your own;
//! - half of all cores are kept free, and a partition is as fast as measured;
//! - all 1,000 counters are in any partition, and a partition commits every 1 s or 10 s (`commit_interval` of
//!   the builder), with as many operations as a flush with this interval.
//!
//! | | ten million records per second | a hundred million |
//! |---|---|---|
//! | MB per second into the brokers; with replicas | 600; 1,800 | 6,000; 18,000 |
//! | partitions | 36 | 360 |
//! | cores for brokers and consumers; with visitors | 20; 22 | 200; 220 |
//! | operations per second on the store, every 1 s | 335,000: 2 masters | 3,350,000: 14 masters |
//! | the same every 10 s | 76,000: 1 master | 756,000: 4 masters |
//!
//! If all records have visitors, Redis needs 0.78 µs for a record. At ten million per second, this would be
//! 8 cores, i.e. 16 masters. Counting in the process with the layer is cheaper than a topic: see
//! `tests/bench/run processor`. Use topics if the records are already in a topic, or if you might need to
//! count again.
