//! Counters of windows: when to choose them, and what they promise.
//!
//! # Which counter
//!
//! | | [`Recorder`](crate::Recorder) | [`WindowCounters`](crate::window::WindowCounters) |
//! |---|---|---|
//! | counting | adds to a number in memory; never fails, never waits | one call to the store, awaited, which may fail |
//! | the answer | none | the count of the window after the call, over all instances |
//! | repeated after a lost answer | yes, and counts once | no: the error says that it may have counted |
//! | while the store is away | counts, and sends later | fails |
//! | keys | 2,000 counters; the rest folds into `(other)` | one for each combination of dimensions and window; they expire by themselves |
//! | use it for | visits, series, dashboards | limits, quotas, trials, "the first ten", "once a day" |
//!
//! If the application does not need the answer, record. If it decides by the answer, use a window.
//!
//! # Dimensions
//!
//! A counter is named by [`Dimensions`](crate::window::Dimensions): names from the code, and values from anywhere. No value
//! can forge another counter. The owner of an address or an account goes in as a [`VisitorId`](crate::VisitorId), so
//! that no key names a person. The id is made with a key of a [`Secret`](crate::Secret), which is never stored, and not
//! with the [salts](crate::visitor::Salt) of visitors, which are. The store sees another id of the same visitor in each window,
//! and the same is true of tokens; without the secret, no two of them can be linked.
//!
//! Each combination of values is a key of its own for as long as the window is kept. A client that can choose a value
//! can create keys, so accept bounded values only.
//!
//! ```
//! use std::num::NonZeroU32;
//! use counter_core::window::{Dimensions, Window, WindowCounters};
//! use counter_core::{MemoryStore, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), counter_core::Error> {
//! let key = Secret::from_bytes([7; 16]).key("mails"); // the same on every instance
//! let mails = WindowCounters::new(MemoryStore::new(), Window::DAY);
//! let account = Dimensions::new().text("mail", "reset").visitor("account", key.visitor(&[b"ann"]));
//! for passes in [true, true, true, false] {
//!     assert_eq!(mails.try_acquire(&account, 3, NonZeroU32::MIN).await?.allowed, passes);
//! }
//! assert_eq!(mails.current(&account).await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Once for each token
//!
//! An exposure, a delivery or an event has an id, and may be reported more than once:
//!
//! ```
//! # use counter_core::visitor::VisitorKey;
//! # use counter_core::window::{Dimensions, Window, WindowCounters};
//! # use counter_core::MemoryStore;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), counter_core::Error> {
//! # let key = VisitorKey::random();
//! let shown = WindowCounters::new(MemoryStore::new(), Window::DAY).keep(7);
//! let banner = Dimensions::new().text("banner", "spring");
//! let session = key.visitor(&[b"session 7"]);
//! assert!(shown.increment_once(&banner, session).await?.is_new);
//! let again = shown.increment_once(&banner, session).await?;
//! assert_eq!((again.is_new, again.count), (false, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # The clock
//!
//! The store's clock decides which window is the current one, so all instances agree, whatever their own clocks say.
//! An instance names the window that it takes for the current one, and the store counts only if that is right;
//! otherwise the store answers with its time, and the instance asks again. The difference of the clocks is remembered,
//! so this costs a second call only now and then. In a cluster each node goes by its own clock.
//!
//! If the clock of a machine jumps ahead and returns, the counts of the current window are still there in memory and in a
//! SQL database, which remove windows no faster than time passes. Redis removes a window as soon as it has expired by the
//! clock of its server.
//!
//! The methods that end in `_at` count in the window of a given instant, such as that of an event. The instant counts
//! as long as its window is kept, by the store's clock: up to [`keep`](crate::window::WindowCounters::keep) widths after the
//! window's end, and at most as many widths before its beginning. Beyond that nothing is counted: the error is
//! [`WindowClosed`](crate::ErrorKind::WindowClosed), and [`try_acquire_at`](crate::window::WindowCounters::try_acquire_at) lets
//! nothing pass. The expiry is set by the call that creates the key, and is never changed.
//!
//! # When the store is away
//!
//! | what happens | [`increment`](crate::window::WindowCounters::increment), [`try_acquire`](crate::window::WindowCounters::try_acquire) | [`increment_once`](crate::window::WindowCounters::increment_once), reading |
//! |---|---|---|
//! | the server says that it cannot serve now: `LOADING`, `BUSY`, `READONLY`, `TRYAGAIN`, `CLUSTERDOWN`, `NOREPLICAS` | repeated for two seconds; then [`Refused`](crate::ErrorKind::Refused): not counted | the same |
//! | the server refuses: `OOM`, a missing right, a key that holds something else | `Refused`: not counted | the same |
//! | there is no answer: a broken connection, a timeout, no server | [`Unconfirmed`](crate::ErrorKind::Unconfirmed): it may have counted, and is not repeated | repeated for two seconds, then [`Unavailable`](crate::ErrorKind::Unavailable) |
//!
//! Acknowledged increments that a server loses in a failover are lost. They are not sent again.
//!
//! # High rates
//!
//! [`folding`](crate::window::WindowCounters::folding) returns a front that many tasks share. While one call is in flight,
//! increments gather, and the next call takes them all; those of the same counter become one number.
//! [`increment_many`](crate::window::WindowCounters::increment_many) does the same for a list.
//!
//! # On Redis
//!
//! | key | type | what | lifetime |
//! |---|---|---|---|
//! | `window:{width}:{dimensions}:{start}` | string | the count | TTL to the end of what is kept, set once |
//! | `window:{width}:{dimensions}:{start}:tokens` | set | 16 bytes for each token | the same |
//!
//! Both follow the namespace, or the hash tag of the shard. A counter lies in the shard that its dimensions choose, or,
//! with [`group_by`](crate::window::WindowCounters::group_by), that the value of one of them chooses: then all counters of an
//! application, for example, lie in one slot of a cluster.
//!
//! These are the rights for windows alone; the second line is for servers where scripts are not allowed. Where the
//! access counter uses the same user, add [its rights](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER windows on >secret ~access:* ~{access:* -@all +eval +evalsha +time +get +set +mget +incrby +sadd +scard +expireat
//! ACL SETUSER plainly on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +discard +time +get +set +mget +incrby +ttl +sadd +scard +sismember +expireat
//! ```
//!
//! Where scripts are not allowed, a client that counts within a limit watches the key, and tries again if another client
//! changed it: up to 10 times. Then it adds without a watch, and subtracts again if the count exceeds the limit. Until
//! then another client that adds more than 1 may be refused although its amount would fit, but no more than the limit is
//! let through. Counting a token is tried up to 100 times, and then `Refused`.
//!
//! # In a SQL database
//!
//! Each window of a counter is a row, which is locked from the increment to the commit: callers of the same counter follow
//! one another, and a commit waits for the disk. That is enough for quotas and trials; a limit on every request belongs
//! into Redis. What is beyond a limit already, and a token that was counted, are found without a write.
//!
//! The clock is the database's. A row that has expired counts for nothing; it is deleted within about a minute while
//! anything counts in windows or a [`Cleaner`](crate::Cleaner) runs. A deadlock or a lock that takes long is tried again
//! for up to 5 s. After a connection that breaks nothing is tried again, since the pool makes another one for the next call.
//! Dimensions may have 2,000 bytes together; with more, the call is `Refused`.
