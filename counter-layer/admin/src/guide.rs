//! The admin router in an application: where to mount it, behind a proxy, with hits of other programs, with the audit of
//! an archive, with alerts, and with the application's own sessions.
//!
//! # Where to mount it
//!
//! [`router`](crate::router) is an axum router with paths of its own, and finds out where it is mounted:
//!
//! | mounted by | first page |
//! |---|---|
//! | `app.nest_service("/admin/stats", admin)` | `/admin/stats` and `/admin/stats/` |
//! | `app.nest("/admin/stats", admin)` | `/admin/stats`; axum gives no path with a slash at its end to a nested router |
//! | `app.merge(admin)` | `/`, if `app` has neither that path nor a fallback |
//! | `axum::serve(listener, admin)` | `/`, on a port of its own |
//!
//! It is a Tower service over `Request<Body>`, so it needs no framework around it: `examples/hyper.rs` of `example-app`
//! serves it on one port with pages on hyper alone.
//!
//! # Behind a proxy that takes a part of the path away
//!
//! Links, redirects and the path of the session cookie begin with the path at which the router is mounted. A proxy may
//! serve it elsewhere: it asks for `/admin/stats/api` or for `/api` when a client has asked for `/stats/api`. Then the
//! application says where clients find the router:
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
//! // As the proxy asks.
//! let link = Request::get("/admin/stats/?token=a-long-random-token").body(Body::empty())?;
//! let response = app.oneshot(link).await?;
//! assert_eq!(response.headers()[header::LOCATION], "/stats/");
//! assert_eq!(response.headers()[header::SET_COOKIE].to_str()?.split("; ").nth(1), Some("Path=/stats"));
//! # Ok(())
//! # }
//! ```
//!
//! nginx passes the rest of a path on when `proxy_pass` has a path. The host has to stay what the browser has asked for,
//! with its port, or logging in and out is taken for the deed of another site; and without buffering, live events arrive
//! as they happen:
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
//! Caddy does the same by `handle_path`, and keeps the host by itself:
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
//! Where the path is for the proxy to say, [`Access::forwarded_prefix`](crate::Access::forwarded_prefix) reads it
//! from `X-Forwarded-Prefix`. The value stands before the path at which the application has mounted the router, so the
//! proxy asks for that path: for `/` where the router has a port of its own, as by `proxy_pass http://127.0.0.1:9000/`.
//! Only proxies that are trusted by [`Access::clients`](crate::Access::clients) are believed, which have to set or
//! to remove the header in every request; and only a path is, never a host:
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
//! Behind a proxy two more settings of [`Access`](crate::Access) matter:
//! [`clients`](crate::Access::clients), without which all clients share one budget of wrong guesses, and
//! [`secure_cookie`](crate::Access::secure_cookie), if the proxy ends TLS. The latter is not needed if the proxy sets
//! `X-Forwarded-Proto` and `clients` trusts it.
//!
//! # Hits from other programs
//!
//! Programs in other languages send their hits to `api/hits`, where
//! [`Options::hits`](crate::Options::hits) (feature `hits`) has opened it and
//! [`Access::may_record`](crate::Access::may_record) grants the right:
//!
//! ```sh
//! curl -H 'Authorization: Bearer a-long-random-token' \
//!   'http://127.0.0.1:3000/admin/stats/api/hits?producer=shop-1&number=1' --data-binary @- <<END
//! {"counter":"signups","at":$(date +%s),"n":3,"visitor":"ann"}
//! {"path":"/articles/7","status":200,"at":$(date +%s),"address":"192.0.2.1","user_agent":"Mozilla/5.0"}
//! END
//! ```
//!
//! The body is NDJSON: a record in each line, 1,000 and 1 MiB at most. A line that is no record spoils no other: the answer
//! tells its place and the reason, and `access_counter_malformed_records_total` at `/metrics` counts them by reason. What
//! goes into a topic of Kafka goes in here as it is. A record names a counter, or tells of a request, which goes through
//! the rules, the identity and the facets of the layer. A counter that the layer feeds itself, such as `hits` or
//! `label:device:tv`, is refused with the reason `fields`. Records may add half of the counters that were free when the router
//! was made; later names count under `(other)`, so that producers cannot take the counters of pages. Producer and number are in the address, so that the body need not
//! be read to know which request it is.
//!
//! A producer numbers its requests: 1, 2, 3 and so on. The answer comes when the store has the hits. A client that gets
//! none repeats the request, to any instance, until it is answered: it counts once.
//!
//! | answer | what it says | what the client does |
//! |---|---|---|
//! | 200 | the request is counted, by this attempt or an earlier one | sends the next |
//! | 409 | an earlier one is not counted; `number` is that of the last that is | goes on with `number` + 1 |
//! | 413, 415, 400 | it has too many bytes or records, an encoding, or a wrong parameter | changes it |
//! | 503, another, none | it may be counted or not | repeats it, with the same records |
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
//! A producer is one program at a time, which has its number and what is not answered yet in memory, or on a disk. One that
//! keeps nothing over a restart begins at 1 under another name each time, such as its host with the time of its start.
//! `GET api/hits?producer=shop-1` tells the number of the last request that is counted.
//!
//! When the store has gone back, as after a failover, a producer is told an older number. One that keeps what was answered
//! in the last minute sends it again, and nothing is missing; another sends the numbers that are missing without records.
//!
//! The store keeps the number for 90 days after the last request that was counted, by its own clock, or as long as
//! [`Sources::keep_for`](counter_core::source::Sources::keep_for) says. A producer that returns later is told 409 with
//! `number` 0, and begins at 1. So that a request that was counted and forgotten does not count twice, records that are
//! older than that time less two days are `expired`, and count nowhere. The answer says how many hits the request added:
//! `applied`, `expired`, and `ahead` of the store's clock by more than 25 hours, which are refused.
//!
//! # An audit of the archive
//!
//! Where the counters are in an [`Archive`](counter_core::archive::Archive), its two stores should agree about every hour and
//! day that is over. An [`Auditor`](counter_core::archive::Auditor) that runs in the process compares them each hour, and the
//! dashboard, `/metrics` and `api/health` tell what differs.
//! [`Options::archive`](crate::Options::archive) gives the router the last audit:
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
//! A `POST` to it makes an audit now, from clients that [may repair](crate::Access::may_repair). After Redis was lost,
//! this puts closed hours and days back into it; hits that come meanwhile are added to them:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/audit?right=far'
//! ```
//!
//! With `right=near` it is the archive that is wrong, as after somebody has changed its tables, and gets what the near store
//! has, even if that is less. The answer tells of the stores as they were before the repair, so a second audit shows that
//! nothing differs any more. A process makes one such audit at a time; another one meanwhile is answered 409. The answer comes
//! when all is compared: with 10,000 counters that can be minutes, and a client that does not wait ends the audit. What was
//! repaired until then stays repaired.
//!
//! # Alerts
//!
//! Where a [`Watch`](counter_alert::Watch) looks at rules, [`Options::alerts`](crate::Options::alerts)
//! gives the router its handle. Every process over the same store tells the same, also one that runs no watch:
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
//! `buckets` are those that raised the alert, or resolved the last one: they say why. `api/alerts/history` has the last 500
//! messages with theirs, and whether each has `arrived`, is `waiting`, was `silenced`, or is `lost` because no receiver took
//! 1,000 messages after it. `/metrics` has `access_counter_alert_raised` and `access_counter_alert_silenced`, 1 or 0 for each
//! rule.
//!
//! Clients that [may silence](crate::Access::may_silence) rules do so for up to 30 days, such as for the time of a
//! maintenance, and end that with `seconds=0`. They can also send a test, to see that messages arrive:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' 'http://127.0.0.1:3000/admin/stats/api/alerts/silence?rule=errors&seconds=3600'
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/alerts/test
//! ```
//!
//! A silenced rule is judged, and nothing is told of it. When the silence ends and the alert is raised, it is told then; one that
//! was told before the silence is not told again. The page `alerts` of the dashboard shows all this, and has forms for it.
//!
//! # Notes
//!
//! A chart that drops asks for what happened then. With [`Options::notes`](crate::Options::notes) the
//! charts have a line at each note, with its text below them and in their tables, on all instances that share the store. The
//! script that deploys the service leaves one, with a token that [may note](crate::Access::may_note):
//!
//! ```sh
//! curl -X POST -G -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/api/notes \
//!     --data-urlencode 'text=Version 1.4' --data-urlencode id=deploy-1.4
//! ```
//!
//! With an `id` of its own a script may repeat the request as often as it likes: one note comes of it. `at=` is the Unix time
//! that the note is about, now where it is left out. People add notes by a form below the chart, and remove them there; a
//! `DELETE` with the `id` does that, too. A note is a line of at most 200 characters. There are 1,000 at most: another one is
//! refused with 409 until one is removed.
//!
//! Who sees the dashboard sees the notes. A link to one view does not show them, since they were written for others than
//! those who have it.
//!
//! # A link to one view
//!
//! Where there is a [token](crate::Access::bearer), a session of the dashboard can share what it sees: below the
//! chart is a form that makes a link for 1 to 366 days. Anyone with the link sees that chart, with the times and
//! statuses on the page of a counter, with the numbers of the time at which it is opened, and nothing else: not the other
//! counters, not the API, no other time. It needs no cookie and no script.
//!
//! The link is signed with a key that is derived from the token, over everything in it, including its end. A link that was
//! changed, has ended or was revoked is answered 403. No instance stores links, so they are revoked all at once: by a button
//! of the dashboard, or by another token. Addresses are in the logs of servers and proxies; a page that a link shows sends no
//! `Referer` to other sites, and has no links to any.
//!
//! # Sessions
//!
//! A login with the token begins a session, which all instances with the token accept. It ends after twelve hours or its
//! [lifetime](crate::Access::session_lifetime), with another token, or earlier by one of three buttons of the
//! dashboard:
//!
//! | button | path | what ends |
//! |---|---|---|
//! | Log out | `POST /logout` | this session |
//! | Sign out everywhere | `POST /logout/everywhere` | all sessions of the token |
//! | Revoke all share links | `POST /links/revoke` | all links of the token |
//!
//! A program does the same with the token:
//!
//! ```sh
//! curl -X POST -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/logout/everywhere
//! ```
//!
//! The store of the counters keeps what was revoked, in one small document for each token, so it stays revoked after a
//! restart. Other instances read the document every 5 s while they are used. While the store cannot be read, they use what
//! they have read last, and the pages say so. A logout that cannot be written holds at its own instance, and is written when
//! the store is back; the other two are then refused with 503, and change nothing for certain. Up to 500 sessions are listed
//! one by one; one more logout ends all sessions of the token.
//!
//! A client with a session or a link can test guesses of the token against the signature. The key is derived by Argon2id with
//! 19 MiB of memory, so that each guess takes about 50 ms, and a token has at least 16 characters. `openssl rand -hex 16`
//! prints a good one.
//!
//! # Days of a time zone
//!
//! The days that are kept are 24 hours long and begin at midnight in UTC, or at the
//! [offset](counter_core::Builder::utc_offset) of the site, which is wrong by an hour in summer. With the feature `time-zone`
//! the dashboard has the days of a zone, which have 23 hours in spring and 25 in autumn:
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
//! - A day is the sum of the buckets in it, of the coarsest precision that begins with all days of the zone: of hours, or
//!   of quarter hours in India and Nepal. So there are as many days as there are hours: 400 days of them, as here, take
//!   660 KB in Redis for a counter that is always busy. In an [archive](counter_core::guide::archive) they are kept for years.
//! - Visitors of a day are those of the union of its hours, where these are among the
//!   [precisions of visitors](counter_core::Builder::visitor_precisions): up to 14.4 KB for an hour.
//! - The salt of visitors changes when the days that are kept begin. With the offset of winter, a visitor who comes before
//!   and after the first hour of a day in summer counts twice in it.
//! - The dashboard tells times by the clocks of the zone where there is no script, and by those of the viewer where there is
//!   one; the button beside the name of the zone changes that.
//! - The API and exports have buckets as they are kept.
//!
//! # With the application's own session
//!
//! An application whose users log in already has an answer to the question of access. A closure gives it, and sees what
//! the layers further out have left in the request. Here it is the session of `tower-sessions`, which is read from its
//! store, so the closure returns a future:
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
//!         session.insert("role", "editor").await.expect("it is kept"); // after a look at a password
//!     }))
//!     .nest_service("/admin/stats", counter_admin::router(counters.stats(), access))
//!     // Outside of the router, or the closure finds no session.
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
//! A refusal by the closure is no failed login: it is not counted as one, and does not bring the client nearer to the limit
//! of guesses. With `.or(Access::bearer(token)?)` an operator gets in without an account, too; the page that a browser is
//! shown then asks for the token.
