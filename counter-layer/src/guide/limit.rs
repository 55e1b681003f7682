//! Limits: so many requests of one key in each window, over all instances.
//!
//! # When to choose it
//!
//! [`WindowLimitLayer`](crate::WindowLimitLayer) asks the store before each request, and the request waits for the answer.
//! The limit is exact over any number of instances: no more requests than the limit pass in a window. A limit that only
//! keeps one process from being overrun needs no store; the layers of `tower` or a crate such as `governor` provide it.
//! Counting visits needs no limit and does not wait: that is [`AccessCounterLayer`](crate::AccessCounterLayer).
//!
//! A window is fixed: around the end of one window and the beginning of the next, twice the limit may pass within a
//! moment. A second limit with shorter windows makes that smaller.
//!
//! # Choosing the key
//!
//! A [`LimitKey`](crate::LimitKey) is a closure over the request, or an [`Identity`](crate::Identity):
//!
//! ```
//! use counter_core::window::{Window, WindowCounters};
//! use counter_core::{MemoryStore, Secret};
//! use counter_layer::{Forwarded, Identity, LimitKey, OnStoreError, WindowLimitLayer};
//!
//! # let from_the_environment = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
//! let secret: Secret = from_the_environment.parse()?; // `openssl rand -hex 16`
//! let behind_a_proxy = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
//! let key = LimitKey::identity(behind_a_proxy, &secret)?;
//!
//! let logins = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
//! let layer = WindowLimitLayer::new(logins, 10, key, OnStoreError::Deny).policy("logins")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client that chooses its identity is not limited. So an address counts without the user agent, and all requests in
//! which the identity finds nothing share one limit. Of an IPv6 address 56 bits count, since the holder of a /56 has 256
//! networks to send from; some have a /48, for which [`ipv6_prefix`](crate::Address::ipv6_prefix) can be set.
//!
//! A cookie that the layer issues tells clients apart when it is [signed](counter_core::Builder::secret), and ids that
//! clients make up share one limit. But each request without a cookie is issued a new one, so such a limit holds only for
//! well-behaved clients.
//!
//! # The secret
//!
//! The store contains the ids of limited clients. They are made with a secret that the store does not have; otherwise all
//! addresses could be tried against them. Instances with the same [`Secret`](counter_core::Secret) limit together, whatever
//! becomes of the salts of visitors. With [`Secret::of_this_process`](counter_core::Secret::of_this_process) each instance
//! limits for itself, so that three instances let three times the limit pass, and begins anew when it is restarted: use
//! it for a single process. A recorder can take the place of a secret, and stands for the secret of its counters.
//!
//! In each window the same client has another id in the store. A reader of the store, its file or a backup, without the
//! secret, learns how many clients were limited in a window and how often each of them came, but not their addresses, nor
//! which of them came again in another window. With the secret too, a reader can try addresses.
//!
//! # What is answered
//!
//! | | status | headers |
//! |---|---|---|
//! | within the limit | the inner service's | `RateLimit: "default";r=49;t=30`, `RateLimit-Policy: "default";q=100;w=60` |
//! | beyond it | 429 | the same, and `Retry-After: 30` |
//! | the store is away, [`OnStoreError::Allow`](crate::OnStoreError::Allow) | the inner service's | none |
//! | the store is away, [`OnStoreError::Deny`](crate::OnStoreError::Deny) | 503 | `Retry-After: 2` |
//! | the key is `None` | the inner service's | none |
//!
//! `r` is what is left, `t` the seconds to the end of the window, `q` the limit and `w` the width of a window in seconds,
//! as in `draft-ietf-httpapi-ratelimit-headers-11`. Several layers add a value each. `t` and `Retry-After` are computed
//! from the store's time, so the clock of the process may be wrong.
//!
//! Refusals have an empty body, or with [`problem_details`](crate::WindowLimitLayer::problem_details) that of RFC 9457 with
//! the problem types of that draft: `quota-exceeded`, which names the policy, and `temporary-reduced-capacity`.
//!
//! A key that has used up its limit is remembered, up to 4,096 keys, and refused without a call to the store until the
//! window ends.
//!
//! # When the store fails
//!
//! Up to 64 requests at a time call each shard of the store, and further requests wait for their turn. A store that is not
//! split has one shard; in a Redis cluster, requests to a node that fails do not delay requests to the others.
//!
//! A request counts as not answered if its call fails or panics, or if its shard decides no request within the
//! [timeout](crate::WindowLimitLayer::timeout), 500 ms by default. A wait for a turn is not an outage as long as the shard
//! decides other requests, but it ends after four timeouts. So no request waits for more than four timeouts, and if the
//! shard does not answer, for one. The log reports an outage once when it begins and once when it ends.
//!
//! A request whose answer from the store was lost may have been counted. Then less than the limit passes in that window,
//! and with `Allow` the requests that came during the outage pass in addition.
//!
//! # Where to put it
//!
//! Put the layer outside of what it protects, and inside of [`AccessCounterLayer`](crate::AccessCounterLayer), so that
//! refusals are counted among `status:4xx`. It waits in the future of the response, so a concurrency limit further out
//! sees a request that waits for the store as one that is being served.
