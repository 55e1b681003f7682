//! Guides: mounting, proxies, hits from other programs, archives, alerts, notes, links, sessions and time zones.
//!
//! The other pages describe the [JSON API](api) and the [dashboard].
//!
//! # Where to mount it
//!
//! [`router`](crate::router) creates an axum router. You can mount it at any path, which will be detected:
//!
//! | mounted by | dashboard |
//! |---|---|
//! | `app.nest_service("/admin/stats", admin)` | `/admin/stats` and `/admin/stats/` |
//! | `app.nest("/admin/stats", admin)` | `/admin/stats`; axum does not route a trailing slash to a nested router |
//! | `app.merge(admin)` | `/`, if `app` does not have this path or a fallback |
//! | `axum::serve(listener, admin)` | `/`, on a separate port |
//!
//! The router is a Tower service over `Request<Body>`, so you can also use it without a framework:
//! `examples/hyper.rs` serves it on the same port as pages that only use hyper.
//!
//! # Behind a proxy that removes a part of the path
//!
//! Links, redirects and the path of the session cookie include the path at which the router is mounted.
//! However, a proxy may serve the router at a different path, e.g. translate `/stats/api` to
//! `/admin/stats/api` or `/api`. In this case, you need to configure the path that clients use:
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
//! nginx replaces the prefix if `proxy_pass` has a path. You must forward the original host with the port,
//! because otherwise logins and logouts will be rejected as cross-origin requests. You should also turn
//! buffering off, so that live events arrive immediately:
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
//! In Caddy, use `handle_path`. This will forward the host by default:
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
//! If the proxy sends the path in `X-Forwarded-Prefix`, you can use
//! [`Access::forwarded_prefix`](crate::Access::forwarded_prefix) instead. The value will be prepended to the
//! path at which the application mounts the router, so the proxy must request this path, e.g. `/` if the
//! router uses a separate port, as with `proxy_pass http://127.0.0.1:9000/`. The header is only used if the
//! request comes from a proxy that [`Access::clients`](crate::Access::clients) trusts, and if the value is a
//! path without a host. These proxies must set or remove the header in all requests:
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
//! Behind a proxy, you should also set [`clients`](crate::Access::clients), because otherwise all clients
//! will share the budget of wrong guesses. If the proxy terminates TLS, you also need
//! [`secure_cookie`](crate::Access::secure_cookie), unless the proxy sets `X-Forwarded-Proto` and `clients`
//! trusts it.
//!
//! # Hits from other programs
//!
//! Programs in other languages can send hits to `/api/hits`. You need to enable this path with
//! [`Options::hits`](crate::Options::hits) (feature `hits`), and to grant the right with
//! [`Access::may_record`](crate::Access::may_record):
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' \
//!   'http://127.0.0.1:3000/admin/stats/api/hits?producer=shop-1&number=1' --data-binary @- <<END
//! {"counter":"signups","at":$(date +%s),"n":3,"visitor":"ann"}
//! {"path":"/articles/7","status":200,"at":$(date +%s),"address":"192.0.2.1","user_agent":"Mozilla/5.0"}
//! END
//! ```
//!
//! The body is NDJSON, with a record per line, up to 1,000 records and 1 MiB. If a line is invalid, the
//! response contains the line number and the reason, but the remaining lines will still be counted.
//! `access_counter_malformed_records_total` at `/metrics` counts invalid lines by reason. The record format
//! is the same as for Kafka topics. A record contains either a counter name, or a request, which passes
//! through the rules, the identity and the facets of the layer. Counters of the layer, such as `hits` or
//! `label:device:tv`, are rejected with the reason `fields`. Records can only create new counters in half of
//! the slots that are free when the router is created, so that producers can't use up the page counters.
//! Additional names count under `(other)`. The producer and the number are in the URL, so that the server can
//! identify the request without reading the body.
//!
//! Producers must number the requests: 1, 2, 3 and so on. The server will respond when the hits are stored.
//! If a client does not receive a response, it should retry the request, on any instance. The request will be
//! counted exactly once.
//!
//! | response | meaning | next step |
//! |---|---|---|
//! | 200 | the request is counted, by this or an earlier attempt | send the next request |
//! | 409 | an earlier request is missing; `number` is the latest counted request | continue with `number` + 1 |
//! | 413, 415, 400 | too many bytes or records, an encoding, or an invalid parameter | change the request |
//! | anything else | the request may or may not have been counted | retry it with the same records |
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
//! Only one program at a time can use a producer name. It must keep the number and any requests without a
//! response, either in memory or on disk. If a program can't keep state across restarts, it should use a new
//! name after a restart, e.g. the host and the start time, and start at 1. `GET /api/hits?producer=shop-1`
//! returns the number of the latest counted request.
//!
//! If the store returns to an older state, e.g. after a failover, the producer will receive an older number.
//! You won't lose hits if the producer keeps the requests of the past minute in order to resend these.
//! Otherwise, it should send empty requests for the missing numbers.
//!
//! The store remembers the number for 90 days (by the store clock) since the latest counted request, or for
//! the period set with [`Sources::expire_after`](counter_core::source::Sources::expire_after). After this, a producer
//! will receive a 409 with `number` 0, and must start at 1. Records older than this period minus two days are
//! `expired` and not counted, because the store might already have forgotten that they are counted. The
//! response contains the number of added hits: `applied`, `expired`, and `ahead` for hits that are rejected
//! because the time is more than 25 hours ahead of the store clock.
//!
//! # An audit of the archive
//!
//! In an [`Archive`](counter_core::archive::Archive), both stores should contain the same closed hours and
//! days. An [`Auditor`](counter_core::archive::Auditor) in the process compares these every hour, and the
//! dashboard, `/metrics` and `/api/health` report differences. If you set
//! [`Options::archive`](crate::Options::archive), you can also read the latest audit:
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
//! Clients that [may repair](crate::Access::may_repair) can use a `POST` to run an audit immediately. If
//! Redis has lost data, this request restores closed hours and days, and adds the hits that arrived in the
//! meantime:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/audit?right=far'
//! ```
//!
//! With `right=near` the archive is overwritten from the near store, even with smaller values. Use this e.g.
//! if the tables have been edited. The response describes the stores prior to the repair; you can run a
//! second audit to check that they are equal. A process runs only one audit at a time, and rejects others
//! with a 409. The response will be sent when the audit is complete, which takes minutes for 10,000 counters.
//! If the client disconnects, the audit ends, but repairs up to this point are not undone.
//!
//! # Alerts
//!
//! Use [`Options::alerts`](crate::Options::alerts) to pass the handle of a [`Watch`](counter_alert::Watch) to
//! the router. All processes with the same store return the same state, even if they don't run a watch:
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/alerts
//! ```
//!
//! ```json
//! {"rules": [{"name": "errors", "is_stored": false, "condition": "status:5xx are more than 5 % of hits",
//!   "counters": ["status:5xx", "hits"], "unit": "share", "severity": "critical", "precision": 60, "raise_after": 1, "resolve_after": 1, "state": "raised",
//!   "raised_since": 1763700000, "silenced_until": null, "judged_until": 1763700060,
//!   "reason": "status:5xx are 10 % of hits, above 5 %",
//!   "last": {"start": 1763700000, "is_met": true, "value": 0.1, "bound": 0.05, "label": null,
//!     "expected": null, "band": null, "model": null, "error": null},
//!   "buckets": [{"start": 1763700000, "is_met": true, "value": 0.1, "bound": 0.05, "label": null,
//!     "expected": null, "band": null, "model": null, "error": null}]}]}
//! ```
//!
//! `buckets` contains the buckets that raised or resolved the alert. `/api/alerts/history` returns the latest
//! 500 messages with the buckets and the delivery state: `arrived`, `waiting`, `silenced`, or `lost` if it
//! was dropped because 1,000 newer messages are waiting. `/metrics` contains `access_counter_alert_raised`,
//! `access_counter_alert_silenced` and `access_counter_alert_unknown`, which are either 1 or 0 for a rule.
//!
//! Clients that [may silence](crate::Access::may_silence) rules can do so for up to 30 days, e.g. during
//! maintenance. To end a silence, set `seconds=0`. You can also send a test message:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/alerts/silence?rule=errors&seconds=3600'
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/alerts/test
//! ```
//!
//! A silenced rule is still evaluated, but does not send messages. If the alert is raised when the silence
//! ends, the message will be sent at this time, unless it was already sent. The dashboard page `/alerts`
//! shows the same information and has forms for these actions.
//!
//! They can also add rules, in the JSON of [`AlertRule`](counter_alert::AlertRule). These are kept in the store, and evaluated by
//! all watches in addition to those of the program. On the dashboard page `/alerts` there are forms for the most common rules:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' --get http://127.0.0.1:3000/admin/stats/api/alerts/rules \
//!   --data-urlencode 'config={"name":"busy","when":{"above":{"counter":"hits","hits":1000}},"precision":60}'
//! curl -X DELETE -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/alerts/rules?rule=busy'
//! ```
//!
//! # Notes
//!
//! If you set [`Options::notes`](crate::Options::notes), charts show notes as vertical lines, with the text
//! below the chart and in the table, on all instances that share the store. A deployment script can add a
//! note if the token [may note](crate::Access::may_note):
//!
//! ```sh
//! curl -X POST -G -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/notes \
//!     --data-urlencode 'text=Version 1.4' --data-urlencode id=deploy-1.4
//! ```
//!
//! If a request has an `id`, it can be retried without creating duplicates. Set `at=` to the Unix time of the
//! note; this defaults to the current time. On the dashboard, you can add and remove notes with a form below
//! the chart. To remove a note via the API, send a `DELETE` with the `id`. A note is a line of up to 200
//! characters. If 1,000 notes exist, further notes will be rejected with a 409.
//!
//! All clients with access to the dashboard can see the notes. However, a link to a view does not show notes,
//! because these may be internal.
//!
//! # Goals
//!
//! A goal is a counter of what people should do: a page, e.g. the one after an order, or a counter to which your code or
//! [another program](#hits-from-other-programs) adds. If you set [`Options::goals`](crate::Options::goals), a token that
//! [may note](crate::Access::may_note) can mark it, with a name for people:
//!
//! ```sh
//! curl -X POST -G -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/goals \
//!     --data-urlencode counter=signups --data-urlencode 'name=Signed up'
//! curl -H 'Authorization: Bearer a-long-random-token' \
//!     "http://127.0.0.1:3000/admin/stats/api/goals?precision=86400&from=$(date -d '7 days ago' +%s)"
//! ```
//!
//! ```json
//! {"precision": 86400, "from": 1763596800, "to": 1764201600, "salt_epoch": 86400, "goals": [{"counter": "signups", "name": "Signed up",
//!   "now": {"hits": 43, "people": 40, "conversion": 0.021, "is_upper_bound": false},
//!   "before": {"hits": 31, "people": 30, "conversion": 0.018, "is_upper_bound": false}}]}
//! ```
//!
//! The conversion is the share of the people of the site who reached the goal. Without a stable identity, a person counts once
//! per salt epoch in both numbers, which is a day by default. `before` is null unless the site and the goal
//! were counted in all of the preceding period. `people` is null if the hits have no visitors, e.g. because your code recorded
//! them without one.
//!
//! # A link to one view
//!
//! If you are signed in with a [token](crate::Access::bearer), you can share the current view: the page
//! `/share` creates a link that is valid for 1 to 366 days. It shows the whole page or only the chart, with current data. A link to
//! a counter page also shows its times and statuses. Notes, alerts, goals and the state of this process are never shown. The link
//! can't be used to see another page or a different period, or to call the API. It does not need cookies or scripts.
//!
//! The page shows the URL with the host of your request. The scheme is `https` under the same conditions as for
//! a [secure cookie](crate::Access::secure_cookie); with scripts, the browser fills in the origin.
//!
//! The whole link, including a random id and the expiry, is signed with a key derived from the token.
//! Modified, expired or revoked links are rejected with a 403. The page lists up to 100 active links, with a
//! button to revoke each of them. To revoke all links, use another button or change the token. Note that
//! servers and proxies might log addresses. A shared page does not link to other sites, and will not send a
//! `Referer` to these.
//!
//! # Sessions
//!
//! A login with the token starts a session, which is valid on all instances with this token. It ends after
//! twelve hours or the configured [lifetime](crate::Access::session_lifetime), if the token changes, or via a
//! button on the dashboard:
//!
//! | button | path | ends |
//! |---|---|---|
//! | Sign out | `POST /logout` | this session |
//! | Sign out everywhere | `POST /logout/everywhere` | all sessions of the token |
//! | Revoke | `POST /share/revoke` with the field `link` | a link of the token |
//! | Revoke all share links | `POST /links/revoke` | all links of the token |
//!
//! You can also do this with the token:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/logout/everywhere
//! ```
//!
//! Revocations are stored in a small document per token, so they survive restarts. While in use, instances
//! read this document every 5 s. If the store can't be read, they use the cached state, and the pages show a
//! warning. If a logout can't be written, it is only valid on this instance, and the upkeep will write it
//! when the store is available again. The other buttons fail with a 503 in this case, and the revocation may or may
//! not have been applied. Up to 500 logouts are listed individually; a further logout will end all sessions
//! of the token. The same applies to 500 revoked links that have not expired.
//!
//! If the store goes back to an older document, e.g. because it was restored from a backup, running instances
//! add the revocations that they know. If sessions were ended both before and after that, all sessions end.
//! A link that is no longer listed can't be revoked by its button, so revoke all links instead.
//!
//! Clients with a session or a link can check guesses of the token against the signature. Therefore, the key
//! is derived by Argon2id with 19 MiB of memory, so that a guess takes about 50 ms, and a token must have at
//! least 16 characters. You can use `openssl rand -hex 16` to generate a token.
//!
//! # Days of a time zone
//!
//! In the store, days start at midnight UTC by default. With the feature `time-zone`, a new store can keep the days of
//! a time zone, which have 23 hours in spring and 25 hours in autumn. The dashboard then shows these days:
//!
//! ```
//! # #[cfg(feature = "time-zone")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use counter_core::{Counters, MemoryStore};
//! use counter_admin::{Access, Options, local_days};
//!
//! let days = local_days("Europe/Berlin")?;
//! let counters = Counters::builder(MemoryStore::new()).local_days(days)?.build()?;
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
//! - In a zone without daylight saving time, this takes no more memory than days of UTC, also with half and quarter
//!   hours. Where clocks change, a busy counter takes up to 1.7 MB more for visitors (14.4 KB per day), and 200 KB more
//!   in Redis to keep hours for as long as days.
//! - All numbers are those of local days. There is one exception: the visitors of a single day with 23 hours, when its
//!   hours are past retention, include the hour after it. This is shown as "At most".
//! - An [archive](counter_core::guide::archive) keeps hours for two years. Older days in a zone with daylight saving time
//!   are only available if you [keep](counter_core::archive::Archive::keep) hours for longer.
//! - To use an existing store, call [`grid_of_store`](counter_core::Builder::grid_of_store) after `local_days`. If
//!   [`are_kept_in`](counter_core::time::LocalDays::are_kept_in) returns `false` for the grid, the page shows the days of
//!   the store, and says so. [`change_grid`](counter_core::Counters::change_grid) switches to the new days, but
//!   hides older counts. [`Options::time_zone_remedy`](crate::Options::time_zone_remedy) adds a sentence to the page.
//! - The visitor salt changes at midnight in this zone.
//! - Without scripts, the dashboard shows times in this zone. With scripts, it shows times in the time zone
//!   of the viewer, but there is a button to switch.
//! - The API and exports return the stored buckets. If there are several kinds of days, name one as in `86400@82800`.
//!
//! # With the application's own session
//!
//! If your application already has a login, you can use a closure that reads the session from the request.
//! This example uses `tower-sessions`, which reads sessions from a store, so the closure must return a
//! future:
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
//!         session.insert("role", "editor").await.expect("it is stored"); // after checking a password
//!     }))
//!     .nest_service("/admin/stats", counter_admin::router(counters.stats(), access))
//!     // This layer must wrap the router, because otherwise the closure will not find a session.
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
//! If the closure rejects a request, this does not count as a failed login. You can add
//! `.or(Access::bearer(token)?)` so that an operator can log in without an account. In this case, browsers
//! without access will receive a form for the token.

pub mod api;
pub mod dashboard;
