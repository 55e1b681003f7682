//! Rules that are added by the API or by a form, and kept in the store.

use counter_core::{MemoryStore, Timestamp};
use http::{Method, StatusCode, header};
use serde_json::json;

use super::super::site::{encode, request};
use super::table::{post_form, text};
use super::{Watched, open_access, page, post};

#[tokio::test]
async fn rules_can_be_added_and_removed_by_the_api() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    let config = |hits| {
        let config = json!({"name": "calm & quiet", "when": {"below": {"counter": "/", "hits": hits}}, "precision": 3600});
        format!("rules?config={}", encode(&config.to_string()))
    };
    for _ in 0..2 {
        let added = post(&router, &config(100)).await;
        assert_eq!((added.status, added.json()), (StatusCode::OK, json!({"rule": "calm & quiet"})));
    }
    watched.raise().await;
    let rule = watched.rule("calm & quiet").await;
    assert_eq!((&rule["is_stored"], &rule["state"]), (&json!(true), &json!("raised")));
    let shown = text(&page(&router, "/alerts").await);
    assert!(shown.contains("calm &amp; quiet / has fewer"), "{shown}");
    for (question, status, wrong) in [
        (config(7), 409, "duplicate name \"calm & quiet\""),
        ("rules".to_owned(), 400, "missing parameter"),
        ("rules?config=%7B%7D".to_owned(), 400, "missing field `name`"),
        (format!("rules?config={}", encode("x".repeat(4097).as_str())), 400, "at most 4096 bytes"),
        (
            format!(
                "rules?config={}",
                encode(r#"{"name":"a","when":{"silent":{"counter":"/"}},"precision":7}"#)
            ),
            400,
            "buckets of 7 s",
        ),
    ] {
        let refused = post(&router, &question).await;
        assert_eq!(refused.status.as_u16(), status, "{question}: {}", refused.body);
        let problem = refused.json();
        assert!(problem.to_string().contains(&wrong.replace('"', "\\\"")), "{problem}");
        assert_eq!(problem["parameter"], "config");
    }
    for _ in 0..2 {
        let path = format!("/admin/stats/api/alerts/rules?rule={}", encode("calm & quiet"));
        assert_eq!(request(&router, Method::DELETE, &path, None).await.status, StatusCode::NO_CONTENT);
    }
    let shown = text(&page(&router, "/alerts").await);
    assert!(!shown.contains("calm &amp; quiet / has fewer"), "{shown}");
    let kept = request(&router, Method::DELETE, "/admin/stats/api/alerts/rules?rule=errors", None).await;
    assert_eq!((kept.status, &kept.json()["parameter"]), (StatusCode::CONFLICT, &json!("rule")));
}

#[tokio::test]
async fn rules_can_be_added_and_removed_by_forms() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    let html = ("accept", "text/html");
    assert!(
        !page(&router, "/alerts").await.contains("<button>Remove"),
        "rules of the program can't be removed"
    );
    for (form, reason) in [
        ("kind=errors&percent=5", "This site has not counted any statuses yet."),
        ("kind=silent&minutes=5", "This site has not counted any requests yet."),
        ("kind=unusual&page=articles", "There is no page named"),
    ] {
        let refused = post_form(&router, "rules", form, html).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{form}");
        assert!(refused.body.contains(reason), "{}", refused.body);
    }
    for counter in ["hits", "/", "status:2xx"] {
        watched.site.record(counter, Timestamp::now(), 1).await;
    }
    for (form, row) in [
        (
            "kind=errors&percent=5",
            "errors above 5 % status:5xx and status:failed are more than 5 % of hits, if there are at least 20 hits for 5 min",
        ),
        (
            "kind=silent&minutes=10&page=%2F",
            "no requests for 10 min: / / has no hits in 1 min, 10 times in a row",
        ),
        ("kind=unusual&side=high&page=", "more requests than usual hits has more hits than expected in 1 h"),
    ] {
        let added = post_form(&router, "rules", form, html).await;
        assert_eq!(
            (added.status, added.headers[header::LOCATION].as_bytes()),
            (StatusCode::SEE_OTHER, &b"/admin/stats/alerts"[..]),
            "{}",
            added.body
        );
        let shown = text(&page(&router, "/alerts").await);
        assert!(shown.contains(row), "{row} in {shown}");
    }
    for (form, status, reason) in [
        ("kind=errors&percent=none", 400, "The share of errors is a number from 0.1 to 99.9."),
        ("kind=slow&milliseconds=500", 400, "This site does not record response times."),
    ] {
        let refused = post_form(&router, "rules", form, html).await;
        assert_eq!(refused.status.as_u16(), status, "{form}");
        assert!(refused.body.contains("Rule not added") && refused.body.contains(reason), "{}", refused.body);
    }
    // The same name, but a different rule.
    let config = r#"{"name":"fewer requests than usual","when":{"silent":{"counter":"/"}}}"#;
    assert_eq!(post(&router, &format!("rules?config={}", encode(config))).await.status, StatusCode::OK);
    let refused = post_form(&router, "rules", "kind=unusual&side=low", html).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.body.contains("a different rule named"), "{}", refused.body);

    let form = format!("rule={}", encode("no requests for 10 min: /"));
    assert_eq!(post_form(&router, "rules/remove", &form, html).await.status, StatusCode::SEE_OTHER);
    let shown = text(&page(&router, "/alerts").await);
    assert!(!shown.contains("no requests for 10 min") && shown.contains("errors above 5 %"), "{shown}");
}
