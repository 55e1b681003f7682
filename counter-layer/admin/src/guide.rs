//! The admin router in an application: mounting, proxies, hits from other programs, archives, alerts, notes, links, sessions
//! and time zones.
//!
//! # Where to mount it
//!
//! [`router`](crate::router) creates an axum router, which detects the path at which it is mounted:
//!
//! | mounted by | first page |
//! |---|---|
//! | `app.nest_service("/admin/stats", admin)` | `/admin/stats` and `/admin/stats/` |
//! | `app.nest("/admin/stats", admin)` | `/admin/stats`; axum does not route paths with a trailing slash to a nested router |
//! | `app.merge(admin)` | `/`, if `app` has neither that path nor a fallback |
//! | `axum::serve(listener, admin)` | `/`, on a port of its own |
//!
//! It is a Tower service over `Request<Body>` and works without a framework: `examples/hyper.rs` of `example-app` serves it on
//! the same port as pages that use hyper only.
//!
//! # Behind a proxy that removes a part of the path
//!
//! Links, redirects and the path of the session cookie begin with the path at which the router is mounted. A proxy can serve
//! the router elsewhere: if a client requests `/stats/api`, the proxy requests `/admin/stats/api` or `/api`. In this case,
//! configure the path at which clients find the router:
//!
//! ```
//! use axum::Router;
//! use axum::body::Body;
//! use counter_core::{Counters, MemoryStore};
//! use counter_admin::{Access, Options};
//! use http::{Request, header};
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let access = Access::bearer("a-long-random-token")?;
//! let options = Options::new().public_path("/stats")?;
//! let admin = counter_admin::router_with(counters.stats(), access, options);
//! let app: Router = Router::new().nest_service("/admin/stats", admin);
//!
//! // The request of the proxy.
//! let link = Request::get("/admin/stats/?token=a-long-random-token").body(Body::empty())?;
//! let response = app.oneshot(link).await?;
//! assert_eq!(response.headers()[header::LOCATION], "/stats/");
//! assert_eq!(response.headers()[header::SET_COOKIE].to_str()?.split("; ").nth(1), Some("Path=/stats"));
//! # Ok(())
//! # }
//! ```
//!
//! nginx forwards the rest of a path if `proxy_pass` has a path. Forward the original host with its port; otherwise logins and
//! logouts are refused as requests of another site. Turn buffering off, so that live events arrive immediately:
//!
//! ```nginx
//! location /stats/ {
//!     proxy_pass http://127.0.0.1:3000/admin/stats/;
//!     proxy_http_version 1.1;
//!     proxy_set_header Host $http_host;
//!     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//!     proxy_set_header X-Forwarded-Prefix /stats;
//!     proxy_buffering off;
//! }
//! ```
//!
//! Caddy does the same with `handle_path`, and forwards the host by default:
//!
//! ```text
//! handle_path /stats* {
//!     rewrite * /admin/stats{uri}
//!     reverse_proxy 127.0.0.1:3000 {
//!         header_up X-Forwarded-Prefix /stats
//!     }
//! }
//! ```
//!
//! If the proxy knows the path, use [`Access::forwarded_prefix`](crate::Access::forwarded_prefix), which reads it from
//! `X-Forwarded-Prefix`. The value is prepended to the path at which the application mounts the router, so the proxy must
//! request that path: `/` if the router has its own port, as with `proxy_pass http://127.0.0.1:9000/`. The header is used only
//! if it comes from a proxy that [`Access::clients`](crate::Access::clients) trusts, and only if it is a path without a host.
//! These proxies must set or remove the header in every request:
//!
//! ```
//! use axum::Router;
//! use axum::body::Body;
//! use counter_core::{Counters, MemoryStore};
//! use counter_admin::Access;
//! use counter_layer::{Forwarded, Identity};
//! use http::{Request, header};
//! # use std::net::SocketAddr;
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let proxies = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks(["10.0.0.0/8".parse()?]);
//! let access = Access::bearer("a-long-random-token")?.clients(proxies).forwarded_prefix();
//! let app: Router = counter_admin::router(counters.stats(), access);
//!
//! for (peer, location) in [("10.0.0.1:4711", "/stats/"), ("192.0.2.7:4711", "/")] {
//!     let link = Request::get("/?token=a-long-random-token").header("x-forwarded-prefix", "/stats");
//!     let link = link.extension(peer.parse::<SocketAddr>()?).body(Body::empty())?;
//!     let response = app.clone().oneshot(link).await?;
//!     assert_eq!(response.headers()[header::LOCATION], location, "{peer}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Two more settings of [`Access`](crate::Access) matter behind a proxy: [`clients`](crate::Access::clients), because otherwise
//! all clients share one budget of wrong guesses, and [`secure_cookie`](crate::Access::secure_cookie), if the proxy terminates
//! TLS. You do not need the latter if the proxy sets `X-Forwarded-Proto` and `clients` trusts it.
//!
//! # Hits from other programs
//!
//! Programs in other languages can send hits to `/api/hits` if [`Options::hits`](crate::Options::hits) (feature `hits`) has
//! opened the path and [`Access::may_record`](crate::Access::may_record) grants the right:
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' \
//!   'http://127.0.0.1:3000/admin/stats/api/hits?producer=shop-1&number=1' --data-binary @- <<END
//! {"counter":"signups","at":$(date +%s),"n":3,"visitor":"ann"}
//! {"path":"/articles/7","status":200,"at":$(date +%s),"address":"192.0.2.1","user_agent":"Mozilla/5.0"}
//! END
//! ```
//!
//! The body is NDJSON: one record per line, up to 1,000 records and 1 MiB. An invalid line does not affect the others: the
//! response contains its number and the reason, and `access_counter_malformed_records_total` at `/metrics` counts invalid
//! lines by reason. The records are the same as in a Kafka topic. A record names a counter, or it describes a request, which
//! passes through the rules, the identity and the facets of the layer. A counter that the layer feeds, such as `hits` or
//! `label:device:tv`, is refused with the reason `fields`. Records can create counters for half of the slots that were free
//! when the router was created; more names count under `(other)`, so that producers cannot use up the counters of pages. The
//! producer and the number are in the address, so the server knows the request before it reads the body.
//!
//! A producer numbers its requests: 1, 2, 3 and so on. The server responds when the store has the hits. If a client receives
//! no response, it should repeat the request, to any instance, until it receives one. The request counts once.
//!
//! | response | meaning | next step |
//! |---|---|---|
//! | 200 | this attempt or an earlier one was counted | send the next request |
//! | 409 | an earlier request is missing; `number` is the last request that was counted | continue with `number` + 1 |
//! | 413, 415, 400 | too many bytes or records, an encoding, or an invalid parameter | change the request |
//! | 503, other, none | the request may or may not have been counted | repeat it with the same records |
//!
//! A client in Python, without packages:
//!
//! ```python
//! import http.client, json, time, urllib.error, urllib.request
//!
//! ADMIN, TOKEN = "http://127.0.0.1:3000/admin/stats", "a-long-random-token"
//!
//! def send(producer, number, records):
//!     """Sends records until they are counted."""
//!     address = f"{ADMIN}/api/hits?producer={producer}&number={number}"
//!     body = "\n".join(json.dumps(record) for record in records).encode()
//!     request = urllib.request.Request(address, body, {"Authorization": f"Bearer {TOKEN}"})
//!     while True:
//!         try:
//!             with urllib.request.urlopen(request, timeout=10) as answer:
//!                 return json.load(answer)
//!         except urllib.error.HTTPError as error:
//!             if error.code < 500:
//!                 raise
//!         except (OSError, http.client.HTTPException):
//!             pass
//!         time.sleep(1)
//!
//! print(send("shop-1", 1, [{"counter": "signups", "at": int(time.time())}]))
//! ```
//!
//! A producer is one program at a time, which keeps its number and the requests without a response in memory or on disk. A
//! program that keeps nothing across restarts should begin at 1 with a new name each time, for example its host and its start
//! time. `GET /api/hits?producer=shop-1` returns the number of the last request that was counted.
//!
//! If the store returns to an older state, for example after a failover, a producer receives an older number. If it keeps the
//! requests of the last minute, it can send them again, and nothing is lost. Otherwise it should send the missing numbers
//! without records.
//!
//! The store keeps the number for 90 days after the last request that was counted, by its own clock, or for as long as
//! [`Sources::keep_for`](counter_core::source::Sources::keep_for) says. A producer that returns later receives a 409 with
//! `number` 0, and begins at 1. Records that are older than this period minus two days are `expired` and not counted, so that
//! a request that was counted and forgotten does not count twice. The response contains the number of hits that the request
//! added: `applied`, `expired`, and `ahead` for hits that are refused because their time is more than 25 hours ahead of the
//! clock of the store.
//!
//! # An audit of the archive
//!
//! If the store is an [`Archive`](counter_core::archive::Archive), its two stores should agree about every closed hour and day.
//! An [`Auditor`](counter_core::archive::Auditor) in the process compares them every hour, and the dashboard, `/metrics` and
//! `/api/health` report differences. [`Options::archive`](crate::Options::archive) makes the last audit available:
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/audit
//! ```
//!
//! ```json
//! {"last": {"at": 1763700000, "compared": 2048, "late": 0, "differing": 1, "unreadable": 0, "refused": 0, "repaired_from": null,
//!   "differences": [{"kind": "counts", "counter": "/", "precision": 3600, "start": 1763690400, "near": 0, "far": 31}]}}
//! ```
//!
//! With a `POST`, clients that [may repair](crate::Access::may_repair) run an audit now. After Redis has lost its data, the
//! following request restores closed hours and days; hits that arrive in the meantime are added to them:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/audit?right=far'
//! ```
//!
//! With `right=near` the archive is corrected from the near store, for example after its tables were edited, even if the near
//! store has less. The response describes the stores before the repair; a second audit shows that they agree. A process runs
//! one such audit at a time, and refuses others with a 409. The response is sent when everything is compared, which takes
//! minutes for 10,000 counters. If the client disconnects, the audit ends; repairs up to this point remain.
//!
//! # Alerts
//!
//! [`Options::alerts`](crate::Options::alerts) gives the router the handle of a [`Watch`](counter_alert::Watch). All processes
//! over the same store return the same state, including those that do not run a watch:
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/alerts
//! ```
//!
//! ```json
//! {"rules": [{"name": "errors", "condition": "status:5xx are more than 5 % of hits", "counters": ["status:5xx", "hits"],
//!   "unit": "share", "severity": "critical", "precision": 60, "raise_after": 1, "resolve_after": 1, "state": "raised",
//!   "raised_since": 1763700000, "silenced_until": null, "judged_until": 1763700060,
//!   "reason": "status:5xx are 10 % of hits, above 5 %",
//!   "last": {"start": 1763700000, "is_met": true, "value": 0.1, "bound": 0.05, "label": null,
//!     "expected": null, "band": null, "model": null, "error": null},
//!   "buckets": [{"start": 1763700000, "is_met": true, "value": 0.1, "bound": 0.05, "label": null,
//!     "expected": null, "band": null, "model": null, "error": null}]}]}
//! ```
//!
//! `buckets` are the buckets that raised the alert or resolved the last one. `/api/alerts/history` returns the last 500 messages
//! with their buckets, and whether each message has `arrived`, is `waiting`, was `silenced`, or is `lost` because no receiver
//! accepted it before 1,000 newer messages. `/metrics` has `access_counter_alert_raised` and `access_counter_alert_silenced`,
//! which are 1 or 0 for each rule.
//!
//! Clients that [may silence](crate::Access::may_silence) rules can do so for up to 30 days, for example during maintenance. To
//! end a silence, set `seconds=0`. They can also send a test message:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/alerts/silence?rule=errors&seconds=3600'
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/alerts/test
//! ```
//!
//! A silenced rule is still evaluated, but no messages are sent. If the alert is raised when the silence ends, the message is
//! sent then, unless it was already sent before the silence. The page `/alerts` of the dashboard shows all this, with forms.
//!
//! # Notes
//!
//! With [`Options::notes`](crate::Options::notes), charts have a vertical line at each note, and the text is below the chart and
//! in its table, on all instances that share the store. A deployment script can add a note with a token that
//! [may note](crate::Access::may_note):
//!
//! ```sh
//! curl -X POST -G -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/notes \
//!     --data-urlencode 'text=Version 1.4' --data-urlencode id=deploy-1.4
//! ```
//!
//! With an `id`, a script can repeat the request, and still creates only one note. `at=` is the Unix time of the note; the
//! default is the current time. On the dashboard, you add notes with a form below the chart, and remove them there; a `DELETE`
//! with the `id` also removes a note. A note is a line of up to 200 characters. There can be 1,000 notes; more are refused with
//! a 409.
//!
//! All clients with access to the dashboard see the notes. A link to one view does not show them, because they were not written
//! for the people who receive the link.
//!
//! # A link to one view
//!
//! A session with a [token](crate::Access::bearer) can share its current view: a form below the chart creates a link that is
//! valid for 1 to 366 days. The link shows this chart to everyone who has it, with the current numbers, and for the page of a
//! counter also its times and statuses. It shows no other counters and no other time, and does not open the API. It needs no
//! cookie and no script.
//!
//! The whole link, including its expiry, is signed with a key that is derived from the token. A link that was changed, has
//! expired or was revoked is refused with a 403. No instance stores links, so you can only revoke all of them: with a button of
//! the dashboard, or with another token. Servers and proxies log addresses. A shared page does not send a `Referer` to other
//! sites, and contains no links to them.
//!
//! # Sessions
//!
//! A login with the token begins a session, which is valid on all instances with this token. It ends after twelve hours or after
//! its [lifetime](crate::Access::session_lifetime), if the token changes, or with one of three buttons of the dashboard:
//!
//! | button | path | ends |
//! |---|---|---|
//! | Log out | `POST /logout` | this session |
//! | Sign out everywhere | `POST /logout/everywhere` | all sessions of the token |
//! | Revoke all share links | `POST /links/revoke` | all links of the token |
//!
//! A program can do the same with the token:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/logout/everywhere
//! ```
//!
//! The store keeps revocations in one small document for each token, so they remain valid after a restart. Other instances read
//! the document every 5 s while they are in use. If the store cannot be read, they use the last known state, and the pages say
//! so. If a logout cannot be written, it is valid on its own instance and is written when the store is available again. The
//! other two buttons fail with a 503 in this case, and it is not certain that anything was revoked. Up to 500 sessions are
//! listed individually; another logout ends all sessions of the token.
//!
//! A client with a session or a link can test guesses of the token against the signature. The key is derived by Argon2id with 19
//! MiB of memory, so each guess takes about 50 ms, and a token must have at least 16 characters. `openssl rand -hex 16` prints a
//! good one.
//!
//! # Days of a time zone
//!
//! The days in the store are 24 hours long and begin at midnight UTC, or at the
//! [offset](counter_core::Builder::utc_offset) of the site, which is wrong by one hour in summer. With the feature `time-zone`,
//! the dashboard shows days of a time zone, with 23 hours in spring and 25 hours in autumn:
//!
//! ```
//! # #[cfg(feature = "time-zone")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::num::NonZeroU32;
//!
//! use counter_core::time::Retention;
//! use counter_core::{Counters, MemoryStore, Precision, Precisions};
//! use counter_admin::{Access, Options};
//!
//! let keep = |width: u32, samples: u32| {
//!     let samples = NonZeroU32::new(samples).expect("not 0");
//!     Precision::try_from(width).map(|precision| Retention { precision, samples })
//! };
//! let kept = Precisions::new([keep(60, 1440)?, keep(3600, 400 * 24)?, keep(86_400, 400)?])?;
//! let winter = 3600;
//! let counters = Counters::builder(MemoryStore::new()).precisions(kept).utc_offset(winter).build()?;
//! let options = Options::new().time_zone("Europe/Berlin")?;
//! let access = Access::bearer("a-long-random-token")?;
//! let admin = counter_admin::router_with(counters.stats(), access, options);
//! # drop(admin);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "time-zone"))]
//! # fn main() {}
//! ```
//!
//! - A day is the sum of its buckets, of the coarsest precision whose buckets begin with all days of the zone: hours, or quarter
//!   hours in India and Nepal. There are as many days as there are hours: 400 days of hours, as in this example, take 660 KB in
//!   Redis for a counter that is always busy. An [archive](counter_core::guide::archive) keeps them for years.
//! - The visitors of a day are those of the union of its hours, if hours are among the
//!   [precisions of visitors](counter_core::Builder::visitor_precisions): up to 14.4 KB per hour.
//! - The salt of visitors changes at the beginning of the days in the store. With the offset of winter time, a visitor before and
//!   after the first hour of a day in summer counts twice.
//! - Without a script, the dashboard shows the times of the zone. With the script, it shows the times of the viewer; a button
//!   switches between them.
//! - The API and exports return the buckets of the store.
//!
//! # With the application's own session
//!
//! If your application already has a login, use a closure that reads its session from the request. In this example, the session
//! is that of `tower-sessions`, which reads it from its own store, so the closure returns a future:
//!
//! ```
//! use axum::body::Body;
//! use axum::routing::get;
//! use axum::{Extension, Router};
//! use counter_core::{Counters, MemoryStore};
//! use counter_admin::Access;
//! use http::{Request, header};
//! use tower_sessions::{MemoryStore as SessionsInMemory, Session, SessionManagerLayer};
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let access = Access::from_async_fn(|parts| {
//!     let session = parts.extensions.get::<Session>().cloned();
//!     async move {
//!         let Some(session) = session else { return false };
//!         session.get::<String>("role").await.is_ok_and(|role| role.as_deref() == Some("editor"))
//!     }
//! });
//! let app: Router = Router::new()
//!     .route("/login", get(async |Extension(session): Extension<Session>| {
//!         session.insert("role", "editor").await.expect("it is kept"); // after checking a password
//!     }))
//!     .nest_service("/admin/stats", counter_admin::router(counters.stats(), access))
//!     // This layer must wrap the router; otherwise the closure finds no session.
//!     .layer(SessionManagerLayer::new(SessionsInMemory::default()));
//!
//! let page = || Request::get("/admin/stats/api/ledger");
//! assert_eq!(app.clone().oneshot(page().body(Body::empty())?).await?.status(), 403);
//!
//! let login = app.clone().oneshot(Request::get("/login").body(Body::empty())?).await?;
//! let cookie = login.headers()[header::SET_COOKIE].to_str()?.split(';').next().unwrap_or_default();
//! let page = page().header(header::COOKIE, cookie).body(Body::empty())?;
//! assert_eq!(app.oneshot(page).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! A refusal by the closure does not count as a failed login. With `.or(Access::bearer(token)?)` an operator can log in without
//! an account; the page for browsers without access then has a form for the token.
