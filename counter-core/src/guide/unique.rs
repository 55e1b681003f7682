//! Counts of distinct items: which unique counter to choose, and what its answers mean.
//!
//! # When to choose it
//!
//! The visitors of pages are counted by the access counter itself, in buckets of time and without asking the store
//! during a request: [`Recorder`](crate::Recorder) records them, and [`Stats::uniques`](crate::Stats::uniques) reads
//! them. A unique counter is for everything else that should count once: the voters of a poll, the articles of an
//! author, the networks that an account logged in from. It has no time, is written at once, and answers whether an
//! item was new.
//!
//! | | [`SetUniqueCounter`] | [`HllUniqueCounter`] | [`AdaptiveUniqueCounter`] |
//! |---|---|---|---|
//! | keeps | every item | 2^14 registers | every item up to a [`Threshold`], then registers |
//! | counts | exactly | with a standard error of 0.81 % | exactly, then as a HyperLogLog |
//! | memory of 1,000 ids of 16 bytes | 64 KB | 2 KB | 64 KB |
//! | memory of 1,000,000 of them | 70 MB | 12 KB | 12 KB |
//! | `include` answers whether the item was new | always | `true` is certain, `false` is not | as its present form does |
//! | [`exclude`](crate::unique::ExcludingCounter::exclude) | yes | | |
//! | can be combined with | sets | any | any |
//! | key after the namespace | `set:{name}` | `hll:{name}` | `adaptive:{name}` |
//!
//! Choose the set when each item matters, or when items are removed again. Choose the HyperLogLog when there will be
//! many items and an error of one per cent does not matter. Choose the adaptive counter when there are many counters
//! of which few grow large: the small ones are exact, and the large ones take no more than 12 KB each.
//!
//! ```
//! use counter_core::unique::{AdaptiveUniqueCounter, Distinct, UniqueCounter};
//! use counter_core::visitor::VisitorKey;
//! use counter_core::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new(); // or a `RedisStore`
//! let key = VisitorKey::new([7; 16]); // a secret that all instances share
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
//! # What an answer means
//!
//! Every number says what it is: [`Distinct::Exact`](crate::unique::Distinct::Exact), or an estimate with its standard error
//! in items. Two estimates in three are closer than that error, and 19 in 20 are closer than twice that.
//!
//! A HyperLogLog does not know its items. `include` answers whether the item raised a register. If it did, the item
//! was certainly new. If it did not, either the item was there before, or it is new and shares its register with a
//! rarer one. Of new items this happens to 1 in 250 when there are 100, to 1 in 6 when there are 5,000, and to 99 in
//! 100 when there are a million. An adaptive counter answers like a set below its threshold, and like a HyperLogLog
//! above it; [`include_all`](crate::unique::UniqueCounter::include_all) and [`count`](crate::unique::UniqueCounter::count) say which
//! it is.
//!
//! A union is as good as the worst of its counters: exact if all of them are exact, and otherwise with the same
//! 0.81 %. An intersection that includes registers is a difference of estimates. Its error grows with the counters
//! and not with what they have in common, so look at the error before the number:
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
//! # Bounds
//!
//! | of one call | at most |
//! |---|---|
//! | an item | 256 bytes |
//! | items | 500 |
//! | counters of a union or a merge | 32 |
//! | counters of an intersection | 5 |
//! | items of all the sets that a union, an intersection or a merge reads | 100,000 |
//!
//! The application has to bound how many items a set gets in the end, and how long a counter is kept. A counter has
//! no expiry unless it is given one by `EXPIRE`, which an adaptive counter keeps when it turns into registers;
//! [`forget`](crate::unique::UniqueCounter::forget) removes it.
//!
//! # People
//!
//! A set keeps its items as they are, and every reader of the store can see them. An item that names a person, such
//! as an address, an account or a cookie, should go through a [`VisitorKey`](crate::visitor::VisitorKey): a
//! [`VisitorId`](crate::VisitorId) is an item. Items are not logged and are not part of errors. They are in a
//! [dump](crate::guide#how-to-run-it) of the store, as they are.
//!
//! # When things go wrong
//!
//! An operation asks the store at once, and its caller waits. If the server says that it did nothing (it is loading
//! its data, a slot is being moved, there is no master), the operation is repeated with growing pauses, for two
//! seconds. Reading and forgetting are repeated after any failure, since they may be done twice. A merge may be
//! called again by the application.
//!
//! An `include` or `exclude` whose answer was lost is not repeated automatically. It may have been done, and the
//! second answer would be about the first call: `false` for an item that no other client has added. The error is
//! [`Unavailable`](crate::ErrorKind::Unavailable). An application that does not need the answer can simply call
//! again: the state is right then, since an item is in the counter or not, however often it is added.
//!
//! A key that holds something else is [`Malformed`](crate::ErrorKind::Malformed), with its name, and is not changed.
//!
//! # Rights
//!
//! On Redis these are needed in addition to [those of the access counter](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER counter +type +sadd +srem +scard +smembers +sscan +pfcount
//! ```
//!
//! Where scripts are not allowed, `+smismember` is needed as well:
//!
//! ```text
//! ACL SETUSER plain +type +sadd +srem +scard +smembers +smismember +sscan +pfcount
//! ```
//!
//! A dump finds the counters by `+scan`.
//!
//! # In a SQL database
//!
//! A counter is a row, which a transaction that changes it holds, and each item of a set is a row beside it. Registers are
//! stored as Redis stores them. A counter that many clients add to is faster in Redis, and a large set is cheaper on a
//! disk. There is no expiry: an application removes a counter by [`forget`](crate::unique::UniqueCounter::forget).
//!
//! # Several servers
//!
//! A counter lies in the shard of its name. Union, intersection and merge read each counter where it is and combine
//! them in the process, so they work across shards and nodes. They are not atomic: items that are added meanwhile may
//! be included in the answer or not.
//!
//! [`SetUniqueCounter`]: crate::unique::SetUniqueCounter
//! [`HllUniqueCounter`]: crate::unique::HllUniqueCounter
//! [`AdaptiveUniqueCounter`]: crate::unique::AdaptiveUniqueCounter
//! [`Threshold`]: crate::unique::Threshold
