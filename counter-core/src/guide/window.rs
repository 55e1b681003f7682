//! Window counters: when to use them, and how they behave.
//!
//! # Which counter
//!
//! | | [`Recorder`](crate::Recorder) | [`WindowCounters`](crate::window::WindowCounters) |
//! |---|---|---|
//! | counting | adds to a number in memory; never fails or waits | an awaited call to the store, which may fail |
//! | return value | none | the new count of the window, across all instances |
//! | retried if the reply is lost | yes, and counts once | no: the error says that it may have been counted |
//! | while the store is unavailable | counts, and sends later | fails |
//! | keys | 2,000 counters; the rest counts as `(other)` | a key for each combination of dimensions and window, with an expiry |
//! | use it for | visits, series, dashboards | limits, quotas, trials, "the first ten", "once a day" |
//!
//! If your application does not need the return value, use a recorder. If it has to make a decision based on
//! the count, use a window.
//!
//! # Dimensions
//!
//! A counter is identified by [`Dimensions`](crate::window::Dimensions). The names of the dimensions are
//! defined in code, but values may come from anywhere, because a value can't be crafted to match another
//! counter. If a dimension is an address or an account, pass it as a [`VisitorId`](crate::VisitorId), so that
//! keys do not contain personal data. The id should be created with a key of a [`Secret`](crate::Secret),
//! which is never stored, and not with the [salts](crate::visitor::Salt) for visitors, which are. In the
//! store, the id of a visitor is different in each window, and the same applies to tokens, so they can't be
//! linked without the secret.
//!
//! Any combination of values creates a key for as long as the window is retained. If clients can choose a
//! value, they can create keys, so you should only accept a limited set of values.
//!
//! ```
//! use std::num::NonZeroU32;
//! use counter_core::window::{Dimensions, Window, WindowCounters};
//! use counter_core::{MemoryStore, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), counter_core::Error> {
//! let key = Secret::from_bytes([7; 16]).key("mails"); // the same in all instances
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
//! # Once per token
//!
//! An exposure, a delivery or an event has an id, but might be reported more than once. Use the id as a
//! token:
//!
//! ```
//! # use counter_core::visitor::VisitorKey;
//! # use counter_core::window::{Dimensions, Window, WindowCounters};
//! # use counter_core::MemoryStore;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), counter_core::Error> {
//! # let key = VisitorKey::random();
//! let exposures = WindowCounters::new(MemoryStore::new(), Window::DAY).keep(7);
//! let banner = Dimensions::new().text("banner", "spring");
//! let session = key.visitor(&[b"session 7"]);
//! assert!(exposures.increment_once(&banner, session).await?.is_new);
//! let repeated = exposures.increment_once(&banner, session).await?;
//! assert_eq!((repeated.is_new, repeated.count), (false, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # The clock
//!
//! The current window is determined by the store clock, so that all instances agree even if their clocks are
//! wrong. An instance sends the window that it expects to be current, and the store only counts if this is
//! correct. Otherwise the store returns its time, and the instance retries. Since the instance remembers the
//! clock difference, this second call is rarely needed. In a cluster, a node uses its local clock.
//!
//! If the clock of a machine jumps ahead and back, the counts of the current window will be preserved by the
//! memory store and by SQL databases, because these remove windows no faster than time passes. Redis removes
//! a window as soon as it expires by the server clock.
//!
//! Methods with the suffix `_at` count in the window of a given instant, e.g. the time of an event. This
//! works as long as the window is retained by the store clock: for up to
//! [`keep`](crate::window::WindowCounters::keep) widths after the end of the window, and for up to the same
//! number of widths before its start. Otherwise it will not be counted: the error is
//! [`WindowClosed`](crate::ErrorKind::WindowClosed), and
//! [`try_acquire_at`](crate::window::WindowCounters::try_acquire_at) does not allow anything. The expiry is
//! set by the call that creates the key and does not change later.
//!
//! # Sliding windows
//!
//! If windows have a fixed start, a client can send the limit at the end of a window, and again at the start
//! of the next. [`try_acquire_sliding`](crate::window::WindowCounters::try_acquire_sliding) applies the limit
//! to any interval as long as a window.
//!
//! For this, a window of width W is divided into parts of W / 10, rounded up to whole seconds. The count is
//! the sum of the current part and the parts that overlap the preceding W seconds. So no interval of W seconds
//! allows more than the limit, for any number of clients and instances, but up to one part too much is
//! counted. This means that a client that always sends as soon as possible is allowed less than the limit per
//! W:
//!
//! | W | parts | minimum |
//! |---|---|---|
//! | a multiple of 10 s | 10 of W / 10 | 91 % of the limit |
//! | 3 s or more | 3 to 10 of whole seconds | 75 % |
//! | 2 s | 2 of 1 s | 67 % |
//! | 1 s | 1 of 1 s | 50 % |
//!
//! A weighted sum of two windows would need fewer keys, but is just an estimate: a burst at the end of a
//! window can be followed by almost the limit within the same W seconds.
//!
//! - If a call is rejected, `reset` is the time at which the amount will fit, unless there are other calls.
//!   Otherwise it is the start of the next part.
//! - The parts are separate counters, which are not used by other methods. A client has at most 11 entries in
//!   memory or rows in a SQL database, each for at most W plus two parts, or two keys on Redis, each for 2 W.
//! - Compared with a fixed window, a call takes 9 % longer in memory and 8 to 13 % longer on Redis, where it needs
//!   16 % more CPU time. The first call of a client in a part also has to read the earlier parts: 2.7 µs in memory
//!   instead of 0.5 µs. In a SQL database, the parts are read by the same statement as the current count, and once
//!   more by the first call in a part. Near the end of a part, the time is read after the commit.
//! - If a part ends before the amount is visible to other instances, which can occur in a SQL database and on
//!   Redis without scripts, the amount is subtracted and the call is repeated in the next part. If the process
//!   stops in between, the client is allowed less than the limit.
//! - If the store clock is set back by at least a part, calls after that do not include the counts of later
//!   parts, so more than the limit can pass. If it is set forward, counts are dropped too early.
//!
//! # When the store is unavailable
//!
//! | failure | [`increment`](crate::window::WindowCounters::increment), [`try_acquire`](crate::window::WindowCounters::try_acquire) | [`increment_once`](crate::window::WindowCounters::increment_once), reads |
//! |---|---|---|
//! | the server is temporarily unable to execute: `LOADING`, `BUSY`, `READONLY`, `TRYAGAIN`, `CLUSTERDOWN`, `NOREPLICAS` | retried for two seconds, then [`Rejected`](crate::ErrorKind::Rejected): not counted | the same |
//! | the server rejects the call: `OOM`, a missing permission, a key with an unexpected type | `Rejected`: not counted | the same |
//! | no reply: a broken connection, a timeout, no server | [`Unconfirmed`](crate::ErrorKind::Unconfirmed): may have been counted, and is not retried | retried for two seconds, then [`Unavailable`](crate::ErrorKind::Unavailable) |
//!
//! If a server loses acknowledged increments in a failover, they will not be sent again.
//!
//! # High rates
//!
//! [`folding`](crate::window::WindowCounters::folding) returns a handle that can be shared between tasks.
//! While a call is in flight, new increments are queued, and then sent in a single call. Increments of the
//! same counter are added up. For a list of increments, use
//! [`increment_many`](crate::window::WindowCounters::increment_many).
//!
//! # On Redis
//!
//! | key | type | contents | lifetime |
//! |---|---|---|---|
//! | `window:{width}:{dimensions}:{start}` | string | the count | TTL until the end of retention, set once |
//! | `window:{part}:{width}*{dimensions}:{start}` | hash | the counts of ten parts of a sliding window | TTL of up to two windows |
//! | `window:{width}:{dimensions}:{start}:tokens` | set | 16 bytes for each token | the same |
//!
//! The namespace, or the hash tag of the shard, is prepended to the keys. The shard of a counter depends on
//! its dimensions. With [`group_by`](crate::window::WindowCounters::group_by), it depends on the value of a
//! single dimension, e.g. to keep all counters of an application in the same slot of a cluster.
//!
//! These are the permissions for windows; the second line is for servers that don't allow scripts. If the
//! access counter uses the same user, add [its permissions](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER windows on >secret ~access:* ~{access:* -@all +eval +evalsha +time +get +set +mget +incrby +hmget +hincrby +hdel +sadd +scard +srem +expireat
//! ACL SETUSER plainly on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +discard +time +get +set +mget +incrby +ttl +hmget +hincrby +sadd +scard +sismember +expireat
//! ```
//!
//! Without scripts, a client that counts up to a limit watches the key, and retries up to 10 times if the key
//! was changed by another client. After that, it adds without a watch, and subtracts the amount if the count
//! exceeds the limit. In the meantime, another client that adds more than 1 might be rejected although its
//! amount would fit, but the limit is never exceeded. Counting a token is retried up to 100 times, and then
//! fails with `Rejected`.
//!
//! # In a SQL database
//!
//! The window of a counter is a row, which is locked from the increment to the commit. This means that calls
//! for the same counter are executed sequentially, and that a commit has to wait for the disk. This is fast
//! enough for quotas and trials, but a limit on every request should use Redis. If the limit has been
//! reached, or if a token was already counted, this is detected without a write.
//!
//! The store uses the database clock. Expired rows are ignored, and will be deleted within about a minute if
//! there are calls to windows or if a [`Cleaner`](crate::Cleaner) is running. After a deadlock or a slow
//! lock, calls are retried for up to 5 s. After a broken connection, they are not retried, because the pool
//! will open a new connection for the next call. The dimensions of a counter may have up to 2,000 bytes in
//! total; a longer counter is `Rejected`.
