//! The JSON API: paths and parameters, errors, live events, caching, and files.
//!
//! # Routes
#![doc = include_str!("../../docs/routes.md")]
//! If you use a token, a `POST` to `/login` with a `token` form field starts a session, and a `POST` to
//! `/logout` ends it. A `POST` to `/logout/everywhere` will end all sessions of the token, and a `POST` to
//! `/links/revoke` will revoke all links. Both require the token or a session started with it. The dashboard
//! is at the root.
//!
//! Times are Unix seconds. A range contains the buckets that start at or after `from`, but before `to`.
//! `from` defaults to the start of retention, and `to` defaults to the end of the current bucket. If the
//! store has an archive, you can set `from` to a time as early as [`Stats::reach`](counter_core::Stats::reach), which `/api` returns as
//! `reach`. However, this does not change the default, and `/api/live` ignores the archive. A precision is
//! given as the bucket width in seconds, without the offset; the samples show when the buckets start. For a
//! series or a sparkline, the precision defaults to one minute, or to the finest precision if minutes are not
//! retained. A request can contain up to 100 counters. Forms send empty fields, so an empty parameter is
//! treated as missing, except for `counter`.
//!
//! A response contains at most 10,000 buckets per counter, and at most 300,000 buckets in total for a series.
//! A sparkline is limited to 1,000 buckets, and so are visitors, in total over all counters. A longer range
//! will be rejected. Without `from`, the range will be cut to the latest buckets instead, or to the latest
//! 1,000 buckets for a ranking. If a series was cut, it has a `from` field.
//!
//! [`explain`](crate::explain) creates a separate router to show how rules classify a request, and [`pictures`](crate::pictures) creates a
//! router with just the images, to be embedded into other sites.
//!
//! # Problems
//!
//! Errors are `application/problem+json` (RFC 9457) with `type`, `title`, `status` and `detail`. If the client
//! accepts `text/html`, it receives a page with the same status instead. An invalid parameter is a 400 with
//! `parameter`, `value` and `allowed`, and an unknown counter is a 404. If the store can't be read, the
//! response is a 503 with the `health` and the `ledger` of this process.
//!
//! # Live events
//!
//! `/api/live` returns server-sent events:
//!
//! | event | data | when |
//! |---|---|---|
//! | `series` | like `/api/series` of a single counter, but only new or changed samples | initially all retained samples, or the latest 20,000 over all counters; then changes once per second, and every 10 s also changes to older buckets |
//! | `status` | `ledger` and `health`, like `/api/ledger` and `/api/health` | every 5 s |
//! | `trouble` | a problem | if a read fails; it will be retried |
//! | a comment | | every 15 s |
//!
//! If a counter is forgotten, the samples will be sent with a count of 0. You can also follow counters that
//! don't exist yet.
//!
//! A response ends after 5 s, because a graceful shutdown of the server has to wait for it. You can use
//! [`Options::live_until`](crate::Options::live_until) to end responses on shutdown instead. Clients should reconnect after a second and
//! send the `id` of the latest event as `Last-Event-ID`, like browsers do. The new response will then start
//! with the buckets that ended less than a minute ago, including empty buckets. If an older bucket has
//! changed in the meantime, or if the client was disconnected for too long, all samples will be sent again.
//!
//! Listeners to the same counters share a store read per second. By default, up to 64 listeners are accepted,
//! and others receive a 503 with `Retry-After`. To change this limit, use [`Options::listeners`](crate::Options::listeners).
//!
//! # Caching
//!
//! The response to a range query has an `ETag`, which is a hash of the body. If a bucket in the range is
//! still open, caches must always revalidate the response. Closed buckets will only change if hits arrive
//! late, e.g. after an outage, or if the counter is forgotten. Thus, caches can reuse the response for a
//! tenth of the time since the end of the range, up to one hour. Other responses must not be cached.
//!
//! # Files
//!
//! CSV exports follow RFC 4180. Spreadsheets evaluate cells that start with `=`, `+`, `-` or `@`, but names
//! are derived from requests. Therefore, if a name starts with any of these characters (including full-width
//! forms) or with an apostrophe, the export prepends an apostrophe. Programs that read the file must remove a
//! leading apostrophe from names. NDJSON contains the original names.
//!
//! # Unreadable keys
//!
//! Some values might be invalid, e.g. if a Redis key has the wrong type, if a field is not a number, or if
//! the list of counters contains invalid entries. We treat such a value as unknown instead of 0. This does
//! not affect other values. Pages show the unreadable keys, and JSON responses about multiple counters
//! contain an `unreadable` list. In a series, this field also lists the unknown `buckets`, and a total is
//! null. An export contains a line without a count, or without a start if the whole counter is unreadable.
//! `/metrics` contains `access_counter_unreadable` and a comment per key, and keys are also logged. A request
//! for a single counter fails with a 503 if the value is unknown. The error includes the key.
//!
//! If a site of a [fleet](counter_core::fleet) can't be read, the counts of all others are a lower bound. JSON
//! responses and live events then have an entry with `is_part` and a key such as `site us`. Where a response
//! has no place for this, e.g. a total, a file or a picture, the request fails with a 503 that names the site
//! and the reason.
