//! Alerts in the JSON API and on the dashboard, and the permission to change rules.

mod table;
mod stored;

use std::time::Duration;

use axum::Router;
use counter_admin::Access;
use counter_alert::{AlertRule, Severity, Watch};
use counter_core::{AnyStore, Counters, MemoryStore, Timestamp};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tests::{FaultProxy, RedisServer};
use tokio::net::TcpListener;

use super::site::{ResponseText, Site, encode, fetch, request, send, share};
use crate::support::{name, precision, store};

const TOKEN: &str = "a-long-random-token";

/// A site with a watch over two rules. The first rule can be raised by hits in the two latest hours.
struct Watched {
    site: Site,
    watch: Watch,
    /// The time at which the latest of these hours is evaluated.
    judged: Timestamp,
}

impl Watched {
    async fn over(store: impl Into<AnyStore>, access: Access) -> Self {
        Self::resolved_after(1, store, access).await
    }

    /// Creates a site whose first rule is resolved after this number of hours.
    async fn resolved_after(hours: u32, store: impl Into<AnyStore>, access: Access) -> Self {
        let store = store.into();
        let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
        let busy = AlertRule::above("busy & loud", name("/"), precision(3600), 10);
        let busy = busy.raise_after(2).resolve_after(hours);
        let errors =
            AlertRule::share_above("errors", [name("status:5xx")], name("hits"), precision(3600), 0.05);
        let watch =
            Watch::builder(counters.stats(), store).rule(errors).rule(busy).build().expect("good rules");
        let site = Site::watched(counters, watch.alerts(), access);
        let end = precision(3600).bucket(Timestamp::now()).start;
        Self { site, watch, judged: end.plus(Watch::LATENESS.as_secs()) }
    }

    async fn raise(&mut self) {
        for ago in [1, 0] {
            let at = self.judged.minus(3600 * ago);
            self.site.record("/", precision(3600).bucket(at).start.minus(3600), 11).await;
            self.watch.check_once(at).await.expect("the store is there");
        }
    }

    async fn rule(&self, name: &str) -> Value {
        let reply = fetch(&self.site.router, "alerts").await.json();
        let rules = reply["rules"].as_array().expect("a list");
        rules.iter().find(|rule| rule["name"] == name).expect("a rule").clone()
    }

    async fn history(&self) -> Value {
        fetch(&self.site.router, "alerts/history").await.json()["messages"].clone()
    }
}

async fn post(router: &Router, path: &str) -> ResponseText {
    request(router, Method::POST, &format!("/admin/stats/api/alerts/{path}"), None).await
}

fn open_access() -> Access {
    Access::open().may_silence()
}

#[tokio::test]
async fn a_raised_rule_names_the_data_that_cannot_be_read() {
    let redis = RedisServer::start();
    let mut watched = Watched::over(store(&redis.url()).await, open_access()).await;
    for ago in [2, 1] {
        let at = watched.judged.minus(3600 * ago);
        watched.site.record("/", precision(3600).bucket(at).start.minus(3600), 11).await;
        watched.watch.check_once(at).await.expect("the store is there");
    }
    let latest = precision(3600).bucket(watched.judged).start.minus(3600).to_string();
    redis.int(&["HSET", "access:count:3600:/", &latest, "junk"]);
    watched.watch.check_once(watched.judged).await.expect("the rest is readable");
    let rule = watched.rule("busy & loud").await;
    let shown = ["state", "reason", "unread"].map(|field| rule[field].clone());
    assert_eq!(shown, [json!("raised"), json!("/ has 11 hits, above 10"), json!("access:count:3600:/")]);
    let page = send(&watched.site.router, "/admin/stats/alerts", None).await.body;
    assert!(page.contains("access:count:3600:/ cannot be read"), "{page}");
}

#[tokio::test]
async fn rules_and_history_include_the_evaluated_numbers() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let fresh = watched.rule("busy & loud").await;
    assert_eq!(
        (&fresh["state"], &fresh["last"], &fresh["reason"]),
        (&json!("unknown"), &json!(null), &json!(null))
    );
    watched.raise().await;
    let end = watched.judged.minus(Watch::LATENESS.as_secs()).as_unix();
    let bucket = |start| {
        json!({"start": start, "is_met": true, "value": 11.0, "bound": 10.0, "label": null, "expected": null, "band": null,
            "model": null, "error": null})
    };
    let (last, before) = (bucket(end - 3600), bucket(end - 7200));
    let expected = json!({
        "name": "busy & loud", "is_stored": false, "condition": "/ has more than 10 hits", "counters": ["/"], "unit": "hits",
        "severity": "warning", "precision": 3600, "raise_after": 2, "resolve_after": 1, "state": "raised",
        "raised_since": end - 3600, "silenced_until": null, "judged_until": end,
        "reason": "/ has 11 hits, above 10", "unread": null, "last": last, "buckets": [before, last],
    });
    assert_eq!(watched.rule("busy & loud").await, expected);
    let errors = watched.rule("errors").await;
    assert_eq!(
        (&errors["state"], &errors["judged_until"], &errors["unit"]),
        (&json!("unknown"), &json!(end), &json!("share"))
    );

    let history = watched.history().await;
    let [message] = &history.as_array().expect("a list")[..] else { panic!("{history}") };
    for (field, value) in [
        ("rule", json!("busy & loud")),
        ("kind", json!("raised")),
        ("severity", json!("warning")),
        ("arrival", json!("arrived")),
        ("at", json!(watched.judged.as_unix())),
        ("arrived_at", json!(watched.judged.as_unix())),
        ("reason", json!("/ has 11 hits, above 10")),
        ("buckets", expected["buckets"].clone()),
    ] {
        assert_eq!(message[field], value, "{field}");
    }
    let metrics = send(&watched.site.router, "/admin/stats/metrics", None).await.body;
    for line in [
        "access_counter_alert_raised{rule=\"busy & loud\"} 1\n",
        "access_counter_alert_raised{rule=\"errors\"} 0\n",
        "access_counter_alert_silenced{rule=\"errors\"} 0\n",
        "access_counter_alert_unknown{rule=\"errors\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_rule_can_be_silenced_and_invalid_rules_or_durations_are_rejected() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    let busy = encode("busy & loud");
    let before = Timestamp::now().as_unix();
    let reply = post(&router, &format!("silence?rule={busy}&seconds=3600")).await.json();
    let until = reply["silenced_until"].as_u64().expect("a time");
    assert!((before + 3600..=Timestamp::now().as_unix() + 3600).contains(&until), "{reply}");
    watched.raise().await;
    let rule = watched.rule("busy & loud").await;
    assert_eq!((&rule["state"], &rule["silenced_until"]), (&json!("raised"), &json!(until)));
    assert_eq!(watched.history().await[0]["arrival"], "silenced");
    let metrics = send(&router, "/admin/stats/metrics", None).await.body;
    assert!(metrics.contains("access_counter_alert_silenced{rule=\"busy & loud\"} 1\n"), "{metrics}");

    let reply = post(&router, &format!("silence?rule={busy}&seconds=0")).await.json();
    assert_eq!(reply, json!({"rule": "busy & loud", "silenced_until": null}));
    assert_eq!(watched.history().await[0]["arrival"], "waiting");
    for (question, status, wrong) in [
        ("rule=calm&seconds=1", 404, "rule"),
        ("seconds=1", 400, "rule"),
        ("rule=errors", 400, "seconds"),
        ("rule=errors&seconds=", 400, "seconds"),
        ("rule=errors&seconds=-1", 400, "seconds"),
        ("rule=errors&seconds=2592001", 400, "seconds"),
        ("rule=errors&rule=errors&seconds=1", 400, "rule"),
        ("rule=errors&hours=1", 400, "hours"),
    ] {
        let reply = post(&router, &format!("silence?{question}")).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["parameter"]),
            (status, &json!(wrong)),
            "{question}"
        );
    }
    assert_eq!(watched.rule("errors").await["silenced_until"], json!(null));
    let longest = post(&router, "silence?rule=errors&seconds=2592000").await;
    assert_eq!(longest.status, StatusCode::OK);
}

#[tokio::test]
async fn a_test_message_is_delivered_once_and_is_in_the_history() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let [id, same] =
        [post(&watched.site.router, "test").await.json(), post(&watched.site.router, "test").await.json()];
    assert!(id["id"].is_string() && id == same, "{id} {same}");
    let checked = watched.watch.check_once(Timestamp::now()).await.expect("memory answers");
    assert_eq!(checked.delivered, 1);
    let history = watched.history().await;
    assert_eq!(history.as_array().map(Vec::len), Some(1));
    assert_eq!((&history[0]["kind"], &history[0]["arrival"]), (&json!("test"), &json!("arrived")));
    assert_eq!(history[0]["id"], id["id"]);
}

#[tokio::test]
async fn silencing_needs_the_permission_and_the_error_names_the_scope() {
    let credentials = format!("Bearer {TOKEN}");
    let owner = || Access::bearer(TOKEN).expect("a token");
    for (access, with, without) in [
        (owner(), 403, 401),
        (owner().may_forget().may_record().may_repair(), 403, 401),
        (owner().may_silence(), 200, 401),
        (Access::open(), 403, 403),
        (open_access(), 200, 200),
        (Access::open().or(owner().may_silence()), 200, 403),
    ] {
        let watched = Watched::over(MemoryStore::new(), access.clone()).await;
        let router = &watched.site.router;
        let added = encode(r#"{"name":"added","when":{"silent":{"counter":"/"}}}"#);
        let added = format!("api/alerts/rules?config={added}");
        for path in ["api/alerts/silence?rule=errors&seconds=60", "api/alerts/test", &added] {
            for (credentials, status) in [(None, without), (Some(("authorization", &*credentials)), with)] {
                let reply = request(router, Method::POST, &format!("/admin/stats/{path}"), credentials).await;
                assert_eq!(reply.status, status, "{access:?}: {}", reply.body);
                if credentials.is_some() && status == 403 && without == 401 {
                    let scope = "Bearer error=\"insufficient_scope\", scope=\"silence\"";
                    assert_eq!(reply.headers[header::WWW_AUTHENTICATE], scope, "{access:?}");
                }
            }
        }
        let removal = "/admin/stats/api/alerts/rules?rule=added";
        let removed = request(router, Method::DELETE, removal, Some(("authorization", &credentials))).await;
        assert_eq!(removed.status, if with == 200 { 204 } else { with }, "{access:?}: {}", removed.body);
        for form in ["rules", "rules/remove"] {
            let sent = table::post_form(router, form, "rule=a", ("authorization", &credentials)).await;
            assert_eq!(
                sent.status == StatusCode::FORBIDDEN,
                with == 403,
                "{access:?}: {form}: {}",
                sent.body
            );
        }
        // Readers must not see forms that would be rejected.
        let page = send(router, "/admin/stats/alerts", Some(("authorization", &credentials))).await;
        assert_eq!(
            (page.status, page.body.contains("Send a test"), page.body.contains("Add a rule")),
            (StatusCode::OK, with == 200, with == 200),
            "{access:?}"
        );
    }
    let watched = Watched::over(MemoryStore::new(), owner().may_silence()).await;
    let reply = request(
        &watched.site.router,
        Method::DELETE,
        "/admin/stats/api/counters?counter=%2F",
        Some(("authorization", &credentials)),
    );
    assert_eq!(reply.await.status, StatusCode::FORBIDDEN, "the permission to silence includes nothing else");
}

#[tokio::test]
async fn without_the_store_alerts_respond_with_a_reason() {
    let mut redis = RedisServer::start();
    let watched = Watched::over(store(&redis.url()).await, open_access()).await;
    let router = &watched.site.router;
    assert_eq!(fetch(router, "alerts").await.status, StatusCode::OK);
    redis.stop();
    for path in ["alerts", "alerts/history"] {
        let reply = fetch(router, path).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(reply.json()["health"].is_object(), "{}", reply.body);
    }
    for path in ["silence?rule=errors&seconds=60", "test"] {
        assert_eq!(post(router, path).await.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    let page = send(router, "/admin/stats/alerts", None).await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.body.contains("Data unavailable"), "{}", page.body);
}

#[tokio::test]
async fn the_routes_are_disabled_by_default() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), open_access()));
    assert_eq!(post(&router, "test").await.status, StatusCode::NOT_FOUND);
    assert_eq!(send(&router, "/admin/stats/alerts", None).await.status, StatusCode::NOT_FOUND);
    assert!(!fetch(&router, "openapi.json").await.body.contains("/api/alerts"));
    let metrics = send(&router, "/admin/stats/metrics", None).await.body;
    assert!(!metrics.contains("access_counter_alert_"), "{metrics}");
}

/// Serves the dashboard of a site with a running watch and a rule that stays raised, and returns the link.
pub(super) async fn serve_alerts() -> String {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let rules = [
        AlertRule::above("busy", name("hits"), precision(3600), 1_000_000),
        AlertRule::below("quiet", name("/"), precision(3600), 10).severity(Severity::Critical).raise_after(2),
        AlertRule::share_above("errors", [name("status:5xx")], name("/none"), precision(3600), 0.05),
    ];
    let builder = Watch::builder(counters.stats(), store).rules(rules).interval(Duration::from_secs(1));
    let mut watch = builder.build().expect("good rules");
    let access = Access::bearer("a-token-for-tests").expect("a token").may_silence();
    let mut site = Site::watched(counters, watch.alerts(), access);
    site.record("hits", Timestamp::now(), 8).await;
    site.record("/", Timestamp::now(), 1).await;
    for ago in [3600, 0] {
        watch.check_once(Timestamp::now().minus(ago)).await.expect("memory answers");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { watch.run(std::future::pending()).await });
    tokio::spawn(async move { axum::serve(listener, site.router).await });
    format!("http://{address}/admin/stats?token=a-token-for-tests")
}

/// Fetches an HTML page that must exist.
async fn page(router: &Router, path: &str) -> String {
    let page = send(router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
    page.body
}

#[tokio::test]
async fn the_overview_shows_a_raised_rule_until_it_is_silenced() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    let line = "<bdi>An alert is firing: busy &amp; loud</bdi>. <a href=\"/admin/stats/alerts\">";
    for path in ["", "/parts"] {
        assert!(!page(&router, path).await.contains("is raised"), "{path}");
    }
    assert!(
        page(&router, "?zone=local").await.contains("href=\"/admin/stats/alerts?zone=local\">Alerts</a>")
    );
    watched.raise().await;
    for path in ["", "/parts"] {
        assert!(page(&router, path).await.contains(line), "{path}");
    }
    post(&router, &format!("silence?rule={}&seconds=60", encode("busy & loud"))).await;
    assert!(!page(&router, "/parts").await.contains("is raised"));
}

#[tokio::test]
async fn charts_of_a_counter_show_the_alerts_of_rules_for_this_counter() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    watched.raise().await;
    post(&router, "test").await;
    watched.site.record("/other", watched.judged, 1).await;
    let end = watched.judged.minus(Watch::LATENESS.as_secs());
    let time = format!("period=custom&from={}&to={end}&by=hour", end.minus(7200));
    // The rule is raised by the second of two hours.
    for path in ["/counter?counter=%2F&", "/counter/parts?counter=%2F&", "?counter=hits&counter=%2F&"] {
        let page = page(&router, &format!("{path}{time}")).await;
        assert_eq!(page.matches("<path class=\"annotation raised\" d=\"M750 0V220\"").count(), 1, "{page}");
        let reply = "<td class=\"events\">busy &#38; loud raised: / has 11 hits, above 10</td>";
        assert!(page.contains(reply) && !page.contains("message delivery works"), "{page}");
    }
    for path in ["/counter?counter=%2Fother&", "?"] {
        assert!(!page(&router, &format!("{path}{time}")).await.contains("annotation raised"), "{path}");
    }
    // The rule is resolved by the next hour, because it does not have hits.
    watched.watch.check_once(watched.judged.plus(3600)).await.expect("memory answers");
    let time = format!("period=custom&from={}&to={}&by=hour", end.minus(3600), end.plus(3600));
    let page = page(&router, &format!("/counter?counter=%2F&{time}")).await;
    assert!(page.contains("<path class=\"annotation raised\" d=\"M250 0V220\""), "{page}");
    assert!(page.contains("<path class=\"annotation resolved\" d=\"M750 0V220\""), "{page}");
}

#[tokio::test]
async fn a_share_link_does_not_show_alerts() {
    let access = Access::bearer(TOKEN).expect("a token");
    let mut watched = Watched::over(MemoryStore::new(), access).await;
    watched.raise().await;
    let router = watched.site.router.clone();
    let login = send(&router, &format!("/admin/stats?token={TOKEN}"), None).await;
    let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
    let credentials = ("cookie", cookie.split(';').next().expect("a session"));
    let view = "counter=%2F&period=5h";
    assert!(
        send(&router, &format!("/admin/stats/counter?{view}"), Some(credentials))
            .await
            .body
            .contains("annotation raised")
    );
    let link = share(&router, &format!("/counter/share?{view}"), credentials.1).await;
    let shared = page(&router, &link.replace("/admin/stats", "")).await;
    assert!(shared.contains("<h1><bdi>/</bdi></h1>") && !shared.contains("annotation raised"), "{shared}");
    assert!(!shared.contains("alerts"), "{shared}");
}

#[tokio::test]
async fn an_unreadable_alert_state_is_reported_and_the_rest_is_shown() {
    let redis = RedisServer::start();
    let mut watched = Watched::over(store(&redis.url()).await, open_access()).await;
    watched.raise().await;
    redis.command(&["HSET", "access:document:alerts", "content", "no JSON"]);
    let router = &watched.site.router;
    for path in ["?counter=%2F&period=24h", "/counter?counter=%2F&period=24h"] {
        let page = page(router, path).await;
        assert!(page.contains("Some data cannot be read") && page.contains("id=\"lines\""), "{page}");
    }
    assert_eq!(send(router, "/admin/stats/alerts", None).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let metrics = send(router, "/admin/stats/metrics", None).await;
    assert!(
        metrics.status == StatusCode::OK && !metrics.body.contains("access_counter_alert"),
        "{}",
        metrics.body
    );
}

#[tokio::test]
async fn pages_with_alerts_need_few_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let mut watched = Watched::over(store(&proxy.url()).await, open_access()).await;
    watched.raise().await;
    for (path, max) in [
        ("/alerts", 2),
        ("?period=120h&by=hour&show=people", 3),
        ("/counter?counter=%2F&period=120h&by=hour", 3),
    ] {
        let call = async || {
            let response = send(&watched.site.router, &format!("/admin/stats{path}"), None).await;
            response.status == StatusCode::OK && response.body.contains("raised")
        };
        let fewest = proxy.fewest_round_trips(max, call).await;
        assert!(fewest <= max, "{fewest} for {path}");
    }
}
