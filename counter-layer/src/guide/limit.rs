//! Limits: a maximum of requests per key in each window, over all instances.
//!
//! # When to choose it
//!
//! [`WindowLimitLayer`](crate::WindowLimitLayer) asks the store before each request, and the request waits
//! for the answer. It is exact over any number of instances: no more than the limit passes in a window. A
//! limit that only protects one process from overload needs no store: use the layers of `tower` or a crate
//! such as `governor`. Counting visits needs no limit and does not wait: that is
//! [`AccessCounterLayer`](crate::AccessCounterLayer).
//!
//! A window is fixed: at its end and at the beginning of the next one, twice the limit may pass within a
//! moment. Two limits, one of them with short windows, reduce that.
//!
//! # The key
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
//! let behind_a_proxy = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1).without_user_agent();
//! let key = LimitKey::identity(behind_a_proxy, &secret)?;
//!
//! let logins = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
//! let layer = WindowLimitLayer::new(logins, 10, key, OnStoreError::Deny).policy("logins")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `without_user_agent` matters: a client that can choose what identifies it is not limited. For the same
//! reason all requests without an identity share one limit, and 56 bits of an IPv6 address count, since a
//! client with a /56 has 256 networks of its own; for clients with a /48 set
//! [`ipv6_prefix`](crate::Address::ipv6_prefix).
//!
//! A cookie that the layer issues identifies clients when it is [signed](counter_core::Builder::secret), and
//! ids that clients make up share one limit. But each request without a cookie is issued a new one, so it
//! limits well-behaved clients only.
//!
//! # The secret
//!
//! The store has the ids of limited visitors. They are made with a secret that is not in the store, or all
//! addresses could be tested against them. Instances with the same [`Secret`](counter_core::Secret) limit
//! together, whatever happens to the salts of visitors. With
//! [`Secret::of_this_process`](counter_core::Secret::of_this_process) each instance limits for itself, so
//! that three instances let three times the limit pass, and begins anew when it is restarted: that is for a
//! single process. A recorder may take the place of a secret, and stands for that of its counters.
//!
//! In each window the same visitor has another id in the store. So a reader of the store, its file or a
//! backup, without the secret, learns how many visitors were limited in a window and how often each came, but
//! neither their identities nor which of them came again in another window. With the secret, addresses can be
//! tested.
//!
//! # Responses
//!
//! | | status | headers |
//! |---|---|---|
//! | within the limit | the inner service's | `RateLimit: "default";r=49;t=30`, `RateLimit-Policy: "default";q=100;w=60` |
//! | beyond it | 429 | the same, and `Retry-After: 30` |
//! | the store fails, [`OnStoreError::Allow`](crate::OnStoreError::Allow) | the inner service's | none |
//! | the store fails, [`OnStoreError::Deny`](crate::OnStoreError::Deny) | 503 | `Retry-After: 2` |
//! | the key is `None` | the inner service's | none |
//!
//! `r` is the number of requests left, `t` the seconds to the end of the window, `q` the limit and `w` the
//! width of a window in seconds, as in `draft-ietf-httpapi-ratelimit-headers-11`. Several layers add a value
//! each.
//!
//! Refusals have an empty body, or with
//! [`problem_details`](crate::WindowLimitLayer::problem_details) that of RFC 9457 with the problem types of that
//! draft: `quota-exceeded`, which names the policy, and `temporary-reduced-capacity`.
//!
//! A key that has used up its limit is remembered, up to 4,096 of them, and refused without asking the store
//! until the window ends. Up to 64 requests ask the store at a time, and the others wait for their turn,
//! which does not count as an outage.
//!
//! The store counts as failing when it returns an error, or answers no request for the
//! [timeout](crate::WindowLimitLayer::timeout). The log says so once when that begins and once when it ends;
//! meanwhile every request waits that long. Where a single node of a cluster is silent and others answer,
//! requests to it wait until the client gives it up, some seconds at most. A request whose answer from the
//! store was lost may have been counted: then less than the limit passes in that window, or, with `Allow`,
//! the requests that passed uncounted come on top.
//!
//! # Where to put it
//!
//! Put it outside of what it protects, and inside of [`AccessCounterLayer`](crate::AccessCounterLayer), so
//! that refusals are counted among `status:4xx`. It waits in the response future, so concurrency limits
//! further out see a request that waits for the store as one that is being served.
