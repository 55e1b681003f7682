//! Counting how many different things there were: which unique counter to choose, and what it answers.
//!
//! # When to choose it
//!
//! The visitors of pages are counted by the access counter itself, in buckets of time and without asking the
//! store in a request: [`Recorder`](crate::Recorder) takes them, [`Stats::uniques`](crate::Stats::uniques)
//! tells them. A unique counter is for all the other things that should count once: who voted, which
//! articles an author has written, from how many networks somebody logged in. It belongs to no time, is
//! written at once, and answers whether an item was new.
//!
//! | | [`SetUniqueCounter`] | [`HllUniqueCounter`] | [`AdaptiveUniqueCounter`] |
//! |---|---|---|---|
//! | keeps | every item | 2^14 registers | every item up to a [`Threshold`], then registers |
//! | counts | exactly | with a standard error of 0.81 % | exactly, then as a HyperLogLog |
//! | memory of 1,000 ids of 16 bytes | 64 KB | 2 KB | 64 KB |
//! | memory of 1,000,000 of them | 70 MB | 12 KB | 12 KB |
//! | `include` answers whether the item was new | always | `true` is certain, `false` is not | as it is now |
//! | [`exclude`](crate::unique::ExcludingCounter::exclude) | yes | | |
//! | adds up with | sets | any | any |
//! | key after the namespace | `set:{name}` | `hll:{name}` | `adaptive:{name}` |
//!
//! Choose the set when each item matters, or when items leave again. Choose the HyperLogLog when there will be
//! many, and a per cent is nothing. Choose the adaptive counter when there are many counters of which few
//! grow large: the small ones are exact, and the large ones take no more than 12 KB each.
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
//! Every number says what it is: [`Distinct::Exact`](crate::unique::Distinct::Exact), or an estimate with its
//! standard error in items; two estimates in three are closer than that, 19 in 20 than twice that.
//!
//! A HyperLogLog does not know its items. `include` answers whether the item raised a register: when it
//! did, it was certainly new. When it did not, it was there before, or it is new and shares its
//! register with a rarer one: of new items that happens to 1 in 250 when there are 100, to 1 in 6 when there
//! are 5,000, and to 99 in 100 when there are a million. An adaptive counter answers like a set, and like a
//! HyperLogLog from the threshold on; [`include_all`](crate::unique::UniqueCounter::include_all) and
//! [`count`](crate::unique::UniqueCounter::count) say which it is.
//!
//! A union is as good as the worst of its counters: exact of those that are, with the same 0.81 % as soon as
//! registers are among them. An intersection with registers among them is a difference of estimates. Its error
//! grows with the counters and not with what they have in common, so look at it before the number:
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
//! How many items a set has in the end is for its owner to bound, and so is for how long a counter lives: it
//! has no expiry, unless it is given one by `EXPIRE`, which an adaptive counter keeps when it turns;
//! [`forget`](crate::unique::UniqueCounter::forget) removes it.
//!
//! # People
//!
//! A set keeps its items as they are, for everybody who can read the store. What names a person, such as an
//! address, an account or a cookie, should go through a [`VisitorKey`](crate::visitor::VisitorKey): a
//! [`VisitorId`](crate::VisitorId) is an item. Nothing of an item is logged, and none is part of an error.
//!
//! # When things go wrong
//!
//! An operation asks the store at once, and its caller waits. What the server says it did not do (it loads
//! its data, a slot is on its way, no master is there) is done again, with growing pauses, for two seconds.
//! So is what fails while reading and forgetting, for that may be done twice. A merge may be called again.
//!
//! An `include` or `exclude` whose answer was lost is not done again by itself. It may have been done, and the
//! second answer would be about the first call: `false` for an item that nobody else has added. The error
//! is [`Unavailable`](crate::ErrorKind::Unavailable), and who does not need the answer just calls again. The
//! state is right then, since an item is in or not, however often it is added.
//!
//! A key that holds something else is [`Malformed`](crate::ErrorKind::Malformed), with its name, and is left as
//! it is.
//!
//! # Rights
//!
//! On Redis these are needed beyond [those of the access counter](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER counter +type +sadd +srem +scard +smembers +sscan +pfcount
//! ```
//!
//! Where scripts are not allowed, `+smismember` as well:
//!
//! ```text
//! ACL SETUSER plain +type +sadd +srem +scard +smembers +smismember +sscan +pfcount
//! ```
//!
//! # Many servers
//!
//! A counter lies in the shard of its name. Union, intersection and merge read each counter where it is and
//! put them together in the process, so they work over shards and nodes; they are no one step, and what is
//! added meanwhile may be in the answer or not.
//!
//! [`SetUniqueCounter`]: crate::unique::SetUniqueCounter
//! [`HllUniqueCounter`]: crate::unique::HllUniqueCounter
//! [`AdaptiveUniqueCounter`]: crate::unique::AdaptiveUniqueCounter
//! [`Threshold`]: crate::unique::Threshold
