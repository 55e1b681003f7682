//! Counters of windows: when to choose them, and what they promise.
//!
//! # Which counter
//!
//! | | [`Recorder`](crate::Recorder) | [`WindowCounters`](crate::window::WindowCounters) |
//! |---|---|---|
//! | counting | adds to a number in memory, never fails, never waits | one call to the store, awaited, that may fail |
//! | the answer | none | what the counter counts then, over all instances |
//! | sent again after a lost answer | yes, and counts once | no: the error says that it may have counted |
//! | while the store is away | counts and sends later | fails |
//! | keys | 2,000 counters, the rest folds into `(other)` | one for each dimensions and window, which expire by themselves |
//! | for | visits, series, dashboards | limits, quotas, trials, "the first ten", "once a day" |
//!
//! Who does not need the answer should record. Who decides by it needs a window.
//!
//! # Dimensions
//!
//! A counter is named by [`Dimensions`](crate::window::Dimensions): names from the code, values from wherever. Whatever
//! a value holds, it cannot forge another counter. Whom an address or an account belongs to goes in as a
//! [`VisitorId`](crate::VisitorId), so that no key names anybody. It is made with a key of a
//! [`Secret`](crate::Secret), which goes to no store, and not with the [salts](crate::visitor::Salt) of visitors, which do. In
//! each window the store has another id of it, and of a token; whoever has the store alone can link no two. Each combination of values is a key of its own
//! for as long as the window is kept, so who may choose a value may make keys: let in what is bounded.
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
//!     assert_eq!(mails.try_acquire(&account, 3, NonZeroU32::MIN).await?.passed, passes);
//! }
//! assert_eq!(mails.current(&account).await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Once for each token
//!
//! An exposure, a delivery or an event has an id, and may be told of more than once:
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
//! assert!(shown.increment_once(&banner, session).await?.first);
//! let again = shown.increment_once(&banner, session).await?;
//! assert_eq!((again.first, again.count), (false, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # Whose clock
//!
//! Which window it is now the store's clock says, so all instances agree, whatever their own clocks say. An
//! instance names the window that it takes for the current one, and the store counts there only if it is; otherwise
//! it says what its clock says, and is asked again. By how much the clocks differ is remembered, so that this costs
//! a second call now and then. In a cluster each node goes by its own clock.
//!
//! What ends in `_at` counts in the window of an instant that is passed in, such as that of an event. It is counted
//! as long as the window is kept, [`keep`](crate::window::WindowCounters::keep) widths after its end, by the store's clock,
//! and no more widths before its beginning. Beyond that nothing is counted: the error is
//! [`WindowClosed`](crate::ErrorKind::WindowClosed), and [`try_acquire_at`](crate::window::WindowCounters::try_acquire_at)
//! lets nothing pass. The expiry is set by the first that makes the key, and never moved.
//!
//! # When the store is away
//!
//! | what happens | [`increment`](crate::window::WindowCounters::increment), [`try_acquire`](crate::window::WindowCounters::try_acquire) | [`increment_once`](crate::window::WindowCounters::increment_once), reading |
//! |---|---|---|
//! | it says that it cannot now: `LOADING`, `BUSY`, `READONLY`, `TRYAGAIN`, `CLUSTERDOWN`, `NOREPLICAS` | asked again for two seconds; then [`Refused`](crate::ErrorKind::Refused): not counted | the same |
//! | it refuses: `OOM`, a missing right, a key that holds something else | `Refused`: not counted | the same |
//! | no answer: a broken connection, a timeout, nobody there | [`Unconfirmed`](crate::ErrorKind::Unconfirmed): it may have counted, and is not sent again | asked again for two seconds, then [`Unavailable`](crate::ErrorKind::Unavailable) |
//!
//! Acknowledged increments that a server loses in a failover are lost: nobody sends them again.
//!
//! # High rates
//!
//! [`folding`](crate::window::WindowCounters::folding) gives a front that many tasks share. While one call is under
//! way, increments gather, and the next call takes them all, those of one counter as one number.
//! [`increment_many`](crate::window::WindowCounters::increment_many) does the same for a list.
//!
//! # On Redis
//!
//! | key | type | what | lives |
//! |---|---|---|---|
//! | `window:{width}:{dimensions}:{start}` | string | the count | TTL to the end of what is kept, set once |
//! | `window:{width}:{dimensions}:{start}:tokens` | set | 16 bytes for each token | the same |
//!
//! after the namespace, or the hash tag of the shard. A counter lies in the shard that its dimensions choose,
//! or, with [`group_by`](crate::window::WindowCounters::group_by), the value of one of them: then all counters of an
//! application lie in one slot of a cluster. The rights for windows alone are these, and where scripts are not
//! allowed those of the second line; beside the counters, join them with
//! [theirs](crate::guide::redis#rights):
//!
//! ```text
//! ACL SETUSER windows on >secret ~access:* ~{access:* -@all +eval +evalsha +time +get +set +mget +incrby +sadd +scard +expireat
//! ACL SETUSER plainly on >secret ~access:* ~{access:* -@all +watch +unwatch +multi +exec +discard +time +get +set +mget +incrby +ttl +sadd +scard +sismember +expireat
//! ```
//!
//! There, those who count within a limit watch its key, and try again when somebody else was faster: 100
//! times, and then they are `Refused`.
