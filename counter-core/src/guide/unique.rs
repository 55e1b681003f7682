//! Counting distinct items: which unique counter to choose, and how to interpret the results.
//!
//! # When to use unique counters
//!
//! You don't need this module for the visitors of a page, because [`Recorder`](crate::Recorder) counts them
//! in time buckets, without calling the store during a request. They can be read with
//! [`Stats::uniques`](crate::Stats::uniques). Use a unique counter to count other distinct items, e.g. the
//! voters of a poll, the articles of an author or the networks from which an account has logged in. It does
//! not have time buckets, writes to the store immediately, and returns whether an item is new.
//!
//! | | [`SetUniqueCounter`] | [`HllUniqueCounter`] | [`AdaptiveUniqueCounter`] |
//! |---|---|---|---|
//! | stores | all items | 2^14 registers | all items up to a [`Threshold`], then registers |
//! | counts | exactly | with a standard error of 0.81 % | exactly, then like a HyperLogLog |
//! | memory for 1,000 ids of 16 bytes | 64 KB | 2 KB | 64 KB |
//! | memory for 1,000,000 ids | 70 MB | 12 KB | 12 KB |
//! | `include` returns whether the item is new | always | `true` is certain, `false` is not | depends on the current form |
//! | [`exclude`](crate::unique::ExcludingCounter::exclude) | yes | | |
//! | can be combined with | sets | any | any |
//! | key after the namespace | `set:{name}` | `hll:{name}` | `adaptive:{name}` |
//!
//! Use a set if you need exact counts or have to remove items. Use a HyperLogLog if there will be many items,
//! and an error of one percent is acceptable. Use an adaptive counter if there are many counters, but only a
//! few of them become large: small counters will be exact, and large counters will not need more than 12 KB.
//!
//! ```
//! use counter_core::unique::{AdaptiveUniqueCounter, Distinct, UniqueCounter};
//! use counter_core::visitor::VisitorKey;
//! use counter_core::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new(); // or a `RedisStore`
//! let key = VisitorKey::new([7; 16]); // a secret shared by all instances
//!
//! let monday = AdaptiveUniqueCounter::new(store.clone(), "networks of monday".parse()?);
//! let tuesday = AdaptiveUniqueCounter::new(store, "networks of tuesday".parse()?);
//! for address in ["192.0.2.1", "192.0.2.2", "192.0.2.1"] {
//!     monday.include(key.visitor(&[address.as_bytes()])).await?;
//! }
//! assert!(tuesday.include(key.visitor(&[b"192.0.2.2"])).await?);
//!
//! assert_eq!(monday.count().await?, Distinct::Exact(2));
//! assert_eq!(monday.union(&[tuesday.key()]).await?, Distinct::Exact(2));
//! assert_eq!(monday.intersection(&[tuesday.key()]).await?, Distinct::Exact(1));
//! # Ok(())
//! # }
//! ```
//!
//! # How to interpret the results
//!
//! A count is either [`Distinct::Exact`](crate::unique::Distinct::Exact), or an estimate with a standard
//! error in items. Two thirds of the estimates are within this error, and 95 % are within two times this
//! error.
//!
//! A HyperLogLog does not store items, so `include` can only return whether a register was raised. In this
//! case, the item was certainly new. Otherwise, the item was either counted before, or it is new, but shares
//! a register with a rarer item. This happens to 1 in 250 new items if there are 100 items, to 1 in 6 if
//! there are 5,000, and to 99 in 100 if there are a million. An adaptive counter behaves like a set below its
//! threshold, and like a HyperLogLog above. To find out which form is used, call
//! [`include_all`](crate::unique::UniqueCounter::include_all) or
//! [`count`](crate::unique::UniqueCounter::count).
//!
//! A union is exact if all of its counters are exact. Otherwise it has the standard error of 0.81 %. When an
//! intersection includes registers, it is computed as a difference of estimates. Since the error depends on
//! the size of the counters instead of the size of the intersection, you should always check the error first:
//!
//! ```
//! use counter_core::unique::{HllUniqueCounter, UniqueCounter};
//! use counter_core::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = MemoryStore::new();
//! let buyers = HllUniqueCounter::new(store.clone(), "buyers".parse()?);
//! let visitors = HllUniqueCounter::new(store, "visitors".parse()?);
//! buyers.include_all((0..400).map(|n| format!("user {n}"))).await?;
//! visitors.include_all((200..700).map(|n| format!("user {n}"))).await?;
//!
//! let both = buyers.intersection(&[visitors.key()]).await?;
//! assert!(both.items().abs_diff(200) as f64 <= 2.0 * both.standard_error());
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! | in a call | limit |
//! |---|---|
//! | size of an item | 256 bytes |
//! | items | 500 |
//! | counters in a union or merge | 32 |
//! | counters in an intersection | 5 |
//! | items in all sets that are read by a union, an intersection or a merge | 100,000 |
//!
//! The total size of a set and the lifetime of a counter must be limited by your application. A counter does
//! not expire unless you use `EXPIRE`. This expiry will be preserved when an adaptive counter is converted to
//! registers. To remove a counter, call [`forget`](crate::unique::UniqueCounter::forget).
//!
//! # Personal data
//!
//! A set stores the items unchanged, so that they can be read by any client of the store. If an item might
//! identify a person, e.g. an address, an account or a cookie, use a
//! [`VisitorKey`](crate::visitor::VisitorKey) to hash it. The resulting [`VisitorId`](crate::VisitorId) can
//! be used as an item. Items are never part of errors or log messages, but a
//! [dump](crate::guide#how-to-run-it) of the store contains them unchanged.
//!
//! # When things go wrong
//!
//! An operation calls the store immediately, and the caller has to wait. If the server replies that it did
//! not execute the operation (e.g. it is loading data, a slot is being moved, or the master is missing), the
//! operation will be retried with increasing delays for two seconds. Reads and `forget` are retried after any
//! error, because it is safe to repeat them. A merge can also be repeated by your application.
//!
//! If the reply to an `include` or `exclude` is lost, the operation is not retried automatically. It might
//! have been executed, and the reply to the retry would then be wrong: `false` for an item that was added by
//! the lost call. The error is [`Unavailable`](crate::ErrorKind::Unavailable). If you don't need the return
//! value, you can just call it again, because adding an item to a counter is idempotent.
//!
//! If a key has an unexpected type, the error is [`Malformed`](crate::ErrorKind::Malformed) with the name of
//! the key, which will not be changed.
//!
//! # Rights
//!
//! On Redis, these permissions must be added to [those of the access counter](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER counter +type +sadd +srem +scard +smembers +sscan +pfcount
//! ```
//!
//! If scripts are not allowed, you also need `+smismember`:
//!
//! ```text
//! ACL SETUSER plain +type +sadd +srem +scard +smembers +smismember +sscan +pfcount
//! ```
//!
//! To create a dump, `+scan` is needed to find the counters.
//!
//! # In a SQL database
//!
//! A counter is a row, which is locked by a transaction that changes it. The items of a set are rows as well.
//! Registers are stored in the same format as in Redis. Redis is faster for a counter that is updated by many
//! clients, but a large set is cheaper on disk. Counters do not expire here, so your application has to call
//! [`forget`](crate::unique::UniqueCounter::forget) to remove a counter.
//!
//! # Shards and clusters
//!
//! The shard of a counter depends on its name. A union, an intersection or a merge first reads the counters
//! and then combines them in the process, so it also works across shards and nodes. This is not atomic,
//! though: items that are added in the meantime may or may not be included.
//!
//! [`SetUniqueCounter`]: crate::unique::SetUniqueCounter
//! [`HllUniqueCounter`]: crate::unique::HllUniqueCounter
//! [`AdaptiveUniqueCounter`]: crate::unique::AdaptiveUniqueCounter
//! [`Threshold`]: crate::unique::Threshold
