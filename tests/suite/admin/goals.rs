//! Goals in the API, and the permission to mark them.

use axum::Router;
use counter_admin::{Access, Options};
use counter_alert::goal::Goals;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{Method, StatusCode};
use serde_json::json;

use super::site::{ResponseText, fetch, request};

const GOALS: &str = "/admin/stats/api/goals";

fn router(counters: &Counters, store: &MemoryStore, access: Access) -> Router {
    let options = Options::new().goals(Goals::new(store.clone()));
    Router::new().nest("/admin/stats", counter_admin::router_with(counters.stats(), access, options))
}

async fn change(router: &Router, method: Method, question: &str) -> ResponseText {
    request(router, method, &format!("{GOALS}?{question}"), None).await
}

#[tokio::test]
async fn a_goal_is_marked_read_and_removed() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let router = router(&counters, &store, Access::open().may_note());
    // If a new day starts now, the range has both days.
    let today = Timestamp::now().as_unix() / 86_400 * 86_400;
    let recorder = counters.recorder();
    for (number, counter) in
        [(1, "hits"), (2, "hits"), (3, "hits"), (4, "hits"), (1, "signups"), (2, "signups")]
    {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[number]]);
        recorder.record(recorder.counter(counter), Some(visitor));
    }
    counters.flush().await.expect("memory does not fail");

    for text in ["Sign+up", "Signed+up"] {
        let marked = change(&router, Method::POST, &format!("counter=signups&name={text}")).await;
        assert_eq!(marked.status, StatusCode::OK, "{}", marked.body);
        assert_eq!(marked.json(), json!({"counter": "signups", "name": text.replace('+', " ")}));
    }
    let found = fetch(&router, &format!("goals?precision=86400&from={today}")).await;
    assert_eq!(found.status, StatusCode::OK, "{}", found.body);
    let found = found.json();
    assert_eq!(found["from"], today);
    assert_eq!(
        found["goals"],
        json!([{
            "counter": "signups", "name": "Signed up", "before": null,
            "now": {"hits": 2, "people": 2, "conversion": 0.5, "is_upper_bound": false},
        }])
    );
    let removed = change(&router, Method::DELETE, "counter=signups").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.body);
    let found = fetch(&router, "goals?precision=86400").await.json();
    assert_eq!(found["goals"], json!([]));
}

#[tokio::test]
async fn goals_need_the_right_a_name_and_the_option() {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let readers = router(&counters, &store, Access::open());
    for method in [Method::POST, Method::DELETE] {
        let refused = change(&readers, method, "counter=signups&name=Signed+up").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    }
    let router = router(&counters, &store, Access::open().may_note());
    for (question, parameter) in [
        ("name=a", "counter"),
        ("counter=&name=a", "counter"),
        ("counter=a", "name"),
        ("counter=view:a&name=a", "counter"),
        ("counter=a&name=", "name"),
        ("counter=a&name=a%0Ab", "name"),
        ("counter=a&name=a&more=b", "more"),
    ] {
        let refused = change(&router, Method::POST, question).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{question}: {}", refused.body);
        assert_eq!(refused.json()["parameter"], parameter, "{question}: {}", refused.body);
    }
    let unknown = fetch(&router, "goals?precision=60").await;
    assert_eq!(
        (unknown.status, &unknown.json()["parameter"]),
        (StatusCode::BAD_REQUEST, &json!("precision"))
    );
    let without = counter_admin::router(counters.stats(), Access::open());
    let without = Router::new().nest("/admin/stats", without);
    assert_eq!(fetch(&without, "goals?precision=86400").await.status, StatusCode::NOT_FOUND);
}
