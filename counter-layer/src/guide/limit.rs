//! Limits: how to limit requests per key and window across all instances.
//!
//! # When to use this
//!
//! [`WindowLimitLayer`](crate::WindowLimitLayer) queries the store for each request, and the request has to
//! wait for the reply. In return the limit is exact across all instances: a window never lets more requests
//! pass. If you just want to protect a single process from overload, you don't need a store; use the `tower`
//! layers or a crate like `governor` instead. To count visits you don't need a limit either: use
//! [`AccessCounterLayer`](crate::AccessCounterLayer), which does not wait.
//!
//! By default, windows are fixed, so up to twice the limit might pass in a short time around the boundary
//! between two windows. With [`sliding`](crate::WindowLimitLayer::sliding), any interval as long as a window
//! allows at most the limit, and a client that always sends as soon as possible is allowed 91 % of it. See the
//! [guide](counter_core::guide::window#sliding-windows) for the details.
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
//! A limit does not work if clients can choose the identity. This is why addresses count without the user
//! agent here, and why all requests without an identity share a limit. For IPv6 addresses the limit uses 56
//! bits, because the holder of a /56 can send from 256 networks; if you need to cover holders of a /48, set
//! [`ipv6_prefix`](crate::Address::ipv6_prefix).
//!
//! An issued cookie identifies a client only if it is [signed](counter_core::Builder::secret); ids made up by
//! clients share a limit. But requests that don't send a cookie will be issued a new cookie, so this limit
//! works only for well-behaved clients.
//!
//! # The secret
//!
//! The store contains the ids of limited clients. These ids are keyed with a secret that is not in the store,
//! because otherwise someone with the store could try all addresses. Instances with the same
//! [`Secret`](counter_core::Secret) share a limit, independent of visitor salts. With
//! [`Secret::process_local`](counter_core::Secret::process_local) the limit applies per instance, i.e.
//! three instances let three times as much pass, and restarts reset it: use this for a single process only.
//! You can also pass a recorder instead of a secret, to use the secret of these counters.
//!
//! The ids of a client differ between windows. If someone can read the store, a database file or a backup,
//! but does not have the secret, they can see how many clients were limited in a window and how often they
//! came, but not the addresses, and not if a client returns in a later window. With the secret they can try
//! addresses.
//!
//! # Responses
//!
//! | | status | headers |
//! |---|---|---|
//! | within the limit | from the inner service | `RateLimit: "default";r=49;t=30`, `RateLimit-Policy: "default";q=100;w=60` |
//! | over the limit | 429 | the same, and `Retry-After: 30` |
//! | the store is unavailable, [`OnStoreError::Allow`](crate::OnStoreError::Allow) | from the inner service | none |
//! | the store is unavailable, [`OnStoreError::Deny`](crate::OnStoreError::Deny) | 503 | `Retry-After: 2` |
//! | the key is `None` | from the inner service | none |
//!
//! Here `r` is the remaining quota, `t` the seconds until the window ends (if the window is sliding: until the
//! quota can increase, or until the client can send another request), `q` the limit and `w` the window
//! width in seconds, as in `draft-ietf-httpapi-ratelimit-headers-11`. If there are multiple limit layers,
//! every layer adds a value. `t` and `Retry-After` are based on the store clock, so the process clock can be
//! wrong.
//!
//! The response body is empty by default. With [`problem_details`](crate::WindowLimitLayer::problem_details)
//! it is an RFC 9457 body with the problem types from the draft: `quota-exceeded`, which includes the policy
//! name, and `temporary-reduced-capacity`.
//!
//! Keys over the limit are cached, up to 4,096 keys, in order to reject further requests without a call to
//! the store until the window ends, or until the client can send another request.
//!
//! # When the store fails
//!
//! Up to 64 requests call a shard of the store at the same time; further requests are queued. A store without
//! shards counts as a single shard. In a Redis cluster, a failing node thus does not delay requests to other
//! nodes.
//!
//! A request counts as unanswered if the call fails or panics, or if the shard does not decide any request
//! within the [timeout](crate::WindowLimitLayer::timeout), 500 ms by default. Waiting in the queue is not
//! considered a failure as long as the shard still decides other requests, but it ends after four timeouts.
//! So a request will wait for at most four timeouts, or for just one if the shard does not respond. The log
//! reports the start and the end of an outage.
//!
//! If a reply from the store is lost, the request might have been counted already. In this case the window
//! lets fewer requests pass, and with `Allow`, requests during the outage pass on top of the limit.
//!
//! # Where to put the layer
//!
//! Put this layer outside of the protected service, but inside of
//! [`AccessCounterLayer`](crate::AccessCounterLayer), in order to count rejected requests as `status:4xx`.
//! The layer waits in the response future, so to an outer concurrency limit, a request waiting for the store
//! looks like a request being served.
