//! Responses of the admin router, checked against the OpenAPI description.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, Options};
use counter_alert::Alerts;
use counter_alert::goal::Goals;
use counter_alert::note::Notes;
use counter_core::archive::Archive;
use counter_core::visits::Distribution;
use counter_core::{Counters, MemoryStore};
use counter_layer::AccessCounterLayer;
use counter_log::LogCounter;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::site::{Site, site};

pub(crate) async fn description() -> Value {
    let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    let counters = Counters::builder(archive.clone()).distributions(Distribution::precisions());
    let counters = counters.build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder());
    let notes = Notes::new(MemoryStore::new());
    let options =
        Options::new().hits(counters.sources(), LogCounter::new(&layer)).archive(archive).notes(notes);
    let (alerts, goals) = (Alerts::new(MemoryStore::new(), []), Goals::new(MemoryStore::new()));
    let options = options.alerts(alerts).goals(goals);
    let admin = counter_admin::router_with(counters.stats(), Access::open(), options);
    let router = Router::new().nest("/admin/stats", admin);
    let request = Request::get("/admin/stats/api/openapi.json").body(Body::empty()).expect("a path");
    let response = router.oneshot(request).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

/// Checks a response of the router mounted at `/admin/stats`.
#[track_caller]
pub(crate) fn check(
    described: &Value,
    method: &Method,
    path: &str,
    (status, headers, body): (StatusCode, &HeaderMap, &str),
) {
    let kind = headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().expect("text"));
    let kind = kind.split(';').next().unwrap_or_default();
    let problem = described["components"]["schemas"]["Problem"].clone();
    let path = path.split('?').next().unwrap_or_default();
    let Some(path) = path.strip_prefix("/admin/stats") else { return };
    let path = if path.is_empty() { "/" } else { path };
    let route = &described["paths"][path][method.as_str().to_lowercase()];
    if route.is_null() || status == StatusCode::SEE_OTHER {
        if kind == "application/problem+json" {
            conforms(described, &problem, &serde_json::from_str(body).expect("JSON"), path);
        }
        return;
    }
    let reply = route["responses"].get(status.as_str()).unwrap_or(&route["responses"]["default"]);
    assert!(!reply.is_null(), "{path}: {status} is not described");
    let Some(contents) = reply["content"].as_object() else {
        assert_eq!(body, "", "{path}: {status} says nothing more");
        return;
    };
    let content = contents.get(kind).unwrap_or_else(|| panic!("{path}: {status} is no {kind:?}: {body}"));
    if kind.ends_with("/json") || kind.ends_with("+json") {
        conforms(described, &content["schema"], &serde_json::from_str(body).expect("JSON"), path);
    }
}

/// Checks a value against a schema. Fields that aren't in the schema are errors.
#[track_caller]
pub(crate) fn conforms(described: &Value, schema: &Value, value: &Value, at: &str) {
    if let Err(why) = fits(described, schema, value) {
        panic!("{at}: {why}\n{value:#}\n{schema:#}");
    }
}

fn fits(described: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = described.pointer(&name[1..]).ok_or_else(|| format!("there is no {name}"))?;
        return fits(described, schema, value);
    }
    for one in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[one].as_array() {
            let fitting = choices.iter().filter(|choice| fits(described, choice, value).is_ok()).count();
            return if fitting == 1 { Ok(()) } else { Err(format!("{fitting} choices fit")) };
        }
    }
    let types: Vec<_> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one],
        _ => vec![],
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fitting = types.contains(&kind) || kind == "integer" && types.contains(&"number");
    if !types.is_empty() && !fitting {
        return Err(format!("{value} is none of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return Err(format!("{value} is not allowed"));
    }
    for value in value.as_array().into_iter().flatten() {
        fits(described, &schema["items"], value)?;
    }
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            object.get(name).ok_or_else(|| format!("{name} is missing"))?;
        }
        for (name, value) in object {
            let schema = properties.get(name).ok_or_else(|| format!("{name} is not described"))?;
            fits(described, schema, value)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn all_paths_in_the_index_are_described_and_all_methods_are_served() {
    let described = description().await;
    let router =
        Site::with(MemoryStore::new(), Access::open().may_forget().may_record().may_repair().may_silence())
            .router;
    let index = super::site::request(&router, Method::GET, "/admin/stats/api", None).await.json();
    let pages = index["pages"].as_array().expect("a list").iter().map(|page| page.as_str().expect("a path"));
    let mut pages: BTreeSet<_> = pages.map(|page| page.replace("/admin/stats", "")).collect();
    assert!(pages.len() >= 14, "{pages:?}");
    pages.insert("/api".to_owned());
    let paths = described["paths"].as_object().expect("paths");
    let can_be_read = paths.iter().filter(|(_, methods)| methods.get("get").is_some());
    let described: BTreeSet<_> = can_be_read.map(|(path, _)| path.clone()).collect();
    // The mounted overview page does not have a trailing slash, unlike a path in the description.
    assert_eq!(described, pages);
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let path = format!("/admin/stats{path}?unheard=of");
            let reply = super::site::request(&router, method.clone(), &path, None).await;
            let is_served = ![StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&reply.status);
            assert!(is_served, "{method} {path}: {}", reply.status);
        }
        let path = format!("/admin/stats{path}");
        let other = super::site::request(&router, Method::PUT, &path, None).await;
        assert_eq!(other.status, StatusCode::METHOD_NOT_ALLOWED, "PUT {path}");
    }
}

#[tokio::test]
async fn all_described_paths_exist_below_the_described_server() {
    let (described, site) = (description().await, site());
    let server = described["servers"][0]["url"].as_str().expect("a path");
    for path in described["paths"].as_object().expect("paths").keys() {
        let path = format!("{server}{path}?unheard=of");
        let reply = super::site::request(&site.router, Method::GET, &path, None).await;
        assert_ne!(reply.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn the_described_names_and_precisions_are_accepted() {
    let described = description().await;
    let parameter = |path: &str, name: &str| {
        let all = described["paths"][path]["get"]["parameters"].as_array().expect("parameters");
        let of_name = all.iter().find(|parameter| parameter["name"] == name);
        of_name.expect("it is described")["schema"].clone()
    };
    let retained = parameter("/api/total", "precision")["enum"].clone();
    assert_eq!(retained, serde_json::json!([1, 5, 60, 300, 3600, 18_000, 86_400]));
    assert_eq!(parameter("/api/uniques", "precision")["enum"], serde_json::json!([3600, 86_400]));
    let counter = parameter("/api/total", "counter");
    assert_eq!((&counter["minLength"], &counter["maxLength"]), (&1.into(), &200.into()));
    let pattern = counter["pattern"].as_str().expect("a pattern");
    assert_eq!(pattern, r"^[^\x00-\x1f\x7f-\x9f]*$");
    for code in (0..=0xff).filter_map(char::from_u32) {
        let is_described = !matches!(code, '\0'..='\x1f' | '\x7f'..='\u{9f}');
        assert_eq!(counter_core::CounterName::new(&code.to_string()).is_ok(), is_described, "{code:?}");
    }
}

#[tokio::test]
async fn all_parameters_are_described_and_all_described_ones_are_accepted() {
    let (described, site) = (description().await, site());
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let named = route["parameters"].as_array().expect("parameters").iter();
            let named = named.filter(|parameter| parameter["in"] == "query");
            let named: Vec<_> = named.map(|parameter| parameter["name"].as_str().expect("a name")).collect();
            let method: Method = method.to_uppercase().parse().expect("a method");
            let path = format!("/admin/stats{}?unheard=of", path.trim_end_matches('/'));
            let reply = super::site::request(&site.router, method, &path, None).await;
            match named.as_slice() {
                [] => {}
                _ if reply.status == StatusCode::FORBIDDEN => {}
                named => {
                    let allowed = reply.json()["allowed"].as_str().expect("what is allowed").to_owned();
                    let allowed: BTreeSet<_> = allowed.split(", ").collect();
                    assert_eq!(allowed, named.iter().copied().collect(), "{path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn empty_parameters_are_ignored_as_described() {
    let (described, site) = (description().await, site());
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let named = methods["get"]["parameters"].as_array().into_iter().flatten();
        for parameter in named.filter(|parameter| parameter["allowEmptyValue"] == true) {
            let name = parameter["name"].as_str().expect("a name");
            let path = format!("/admin/stats{}?{name}=", path.trim_end_matches('/'));
            let reply = super::site::request(&site.router, Method::GET, &path, None).await;
            let is_named = reply.status == StatusCode::BAD_REQUEST && reply.json()["parameter"] == name;
            assert!(!is_named, "{path}: {}", reply.body);
        }
    }
}

#[tokio::test]
async fn all_routes_can_be_tried_on_a_page_without_script() {
    let (described, site) = (description().await, site());
    let page = super::site::fetch(&site.router, "explore").await;
    assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let title = format!("<code>{} {path}</code>", method.to_uppercase());
            assert!(page.body.contains(&title), "{title}");
        }
    }
    for forbidden in ["<script", "<style", "style=", "onclick"] {
        assert!(!page.body.contains(forbidden), "{forbidden}");
    }
    // Form actions are relative to the page, and must lead to a described route.
    for action in page.body.split("action=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let path = action.strip_prefix("../").expect("one up");
        assert!(!described["paths"][format!("/{path}")]["get"].is_null(), "{action}");
    }
}

#[tokio::test]
async fn all_schema_references_resolve_and_the_server_is_the_mount_path() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            _ => {}
        }
    }
    let described = description().await;
    let mut found = BTreeSet::new();
    references(&described, &mut found);
    assert!(found.len() >= 15, "{found:?}");
    for reference in found {
        assert!(described.pointer(&reference[1..]).is_some(), "{reference}");
    }
    assert_eq!(described["servers"][0]["url"], "/admin/stats");
}

#[tokio::test]
async fn the_documented_table_of_routes_matches_the_description() {
    let described = description().await;
    let mut table = "| path | parameters | response |\n|---|---|---|\n".to_owned();
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let parameters = route["parameters"].as_array().expect("parameters").iter().map(|parameter| {
                let name = parameter["name"].as_str().expect("a name");
                let many = if parameter["schema"]["type"] == "array" { "…" } else { "" };
                if parameter["required"] == true {
                    format!("`{name}`{many}")
                } else {
                    format!("(`{name}`{many})")
                }
            });
            let parameters: Vec<_> = parameters.collect();
            let method = if method == "get" { String::new() } else { method.to_uppercase() + " " };
            let summary = route["summary"].as_str().expect("a text");
            table += &format!("| `{method}{path}` | {} | {summary} |\n", parameters.join(" "));
        }
    }
    table += "\nParameters in parentheses are optional, and `…` can occur more than once.\n";
    let written = include_str!("../../../counter-layer/admin/docs/routes.md");
    assert_eq!(written, table, "counter-layer/admin/docs/routes.md must be\n{table}");
}
