//! Limits: so many requests of one key in each window, over all instances.
//!
//! # When to choose it
//!
//! [`WindowLimitLayer`](crate::WindowLimitLayer) asks the store before each request, and the request waits
//! for the answer. It is exact over any number of instances: no more than the limit passes in a window. A
//! limit that only keeps one process from being overrun needs no store, and is the affair of the layers of
//! `tower` or of a crate such as `governor`. Counting visits needs no limit and does not wait: that is
//! [`AccessCounterLayer`](crate::AccessCounterLayer).
//!
//! A window is fixed: at its end and at the beginning of the next, twice the limit may pass within a moment.
//! Two limits, one of them of short windows, make that smaller.
//!
//! # By whom
//!
//! A [`LimitKey`](crate::LimitKey) is a closure over the request, or an [`Identity`](crate::Identity):
//!
//! ```
//! use counter_core::{Counters, MemoryStore, VisitorKey, Window, WindowCounters};
//! use counter_layer::{Forwarded, Identity, LimitKey, StoreAway, WindowLimitLayer};
//!
//! let store = MemoryStore::new();
//! let counters = Counters::builder(store.clone()).build()?;
//! let behind_a_proxy = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1).without_user_agent();
//! let key = LimitKey::identity(behind_a_proxy, &counters.recorder())?;
//!
//! let logins = WindowCounters::new(store, Window::MINUTE);
//! let layer = WindowLimitLayer::new(logins, 10, key, StoreAway::Closed).policy("logins")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `without_user_agent` matters: whoever may choose what he is told apart by is not limited. For the same
//! reason all who show nothing share one limit. The salt of the identity changes at the end of its epoch, and
//! with it everybody's counts begin again, once a day by default.
//!
//! # What is answered
//!
//! | | status | headers |
//! |---|---|---|
//! | within the limit | the inner service's | `RateLimit: "default";r=49;t=30`, `RateLimit-Policy: "default";q=100;w=60` |
//! | beyond it | 429, empty | the same, and `Retry-After: 30` |
//! | the store is away, [`StoreAway::Open`](crate::StoreAway::Open) | the inner service's | none |
//! | the store is away, [`StoreAway::Closed`](crate::StoreAway::Closed) | 503, empty | `Retry-After: 2` |
//! | the key is `None` | the inner service's | none |
//!
//! `r` is what is left, `t` the seconds to the end of the window, `q` the limit and `w` the width of a window
//! in seconds, as in `draft-ietf-httpapi-ratelimit-headers-11`. Several layers add a value each.
//!
//! The store is away when it fails or does not answer within the
//! [timeout](crate::WindowLimitLayer::timeout); the log says so once when that begins and once when it ends.
//! While it is slow every request waits that long. A request whose answer from the store was lost may have been
//! counted: then less than the limit passes in that window, and with `Open` what came meanwhile on top.
//!
//! # Where to put it
//!
//! Outside of what it protects, and inside of [`AccessCounterLayer`](crate::AccessCounterLayer), so that
//! refusals are counted among `status:4xx`. It waits in the future of the response, so limits of concurrency
//! further out see a request that waits for the store as one that is served.
