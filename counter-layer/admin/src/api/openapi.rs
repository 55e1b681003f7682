//! The OpenAPI document. The schemas are derived from the response types.

use axum::response::Response;
use counter_core::Stats;
use counter_core::time::Grid;
use serde_json::{Map, Value, json};

use super::parameter::{self, Asked};
use super::route::{Answer, Catalog, Description, Route};
use super::{caching, schema};
use crate::problem::Details;

/// The path of this document.
const PATH: &str = "/api/openapi.json";

/// Responses to clients without access.
const NO_ACCESS: [(&str, &str); 3] = [
    ("401", "There are no valid credentials in the request"),
    ("403", "The client may not do this"),
    ("429", "Too many logins have failed, and this one was not checked"),
];

pub(crate) fn route(stats: &Stats, catalog: &Catalog) -> Route {
    Route::get(PATH, "The OpenAPI description of these routes", (stats.clone(), catalog.clone()), openapi)
        .text("application/json", "OpenAPI 3.1")
        .cached()
}

async fn openapi(
    Asked { state: (stats, catalog), mount, headers, .. }: Asked<(Stats, Catalog), ()>,
) -> Response {
    caching::answer(&headers, None, &describe(&mount, catalog.descriptions(), stats.grid()))
}

fn describe(mount: &str, routes: &[Description], grid: &Grid) -> Value {
    let mut paths = Map::new();
    // OpenAPI paths must start with a slash, so we can't describe the dashboard of a nested router without a
    // trailing slash.
    for route in routes.iter().filter(|route| mount.is_empty() || route.path != "/") {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route, grid);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Access counters",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are Unix seconds. A range has the buckets that start at or after `from` \
                            and before `to`, and ends after it begins; without them it is all that is \
                            kept, or, where that is more than an answer may have, the latest of it. What an \
                            archive keeps for longer is read where `from` names it. Each route says what an \
                            answer may have, and `/api` how far back the samples of each precision reach.",
        },
        "servers": [{"url": if mount.is_empty() { "/" } else { mount }}],
        // The site decides which of these are enabled.
        "security": [{"bearer": []}, {"basic": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas(routes),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "counter_session"},
            },
        },
    })
}

fn schemas(routes: &[Description]) -> Map<String, Value> {
    let mut all = Vec::new();
    routes.iter().flat_map(|route| &route.schemas).for_each(|add| add(&mut all));
    schema::add::<Details>(&mut all);
    let json = |schema| serde_json::to_value(schema).expect("a schema has a form in JSON");
    all.into_iter().map(|(name, schema)| (name, json(schema))).collect()
}

fn operation(route: &Description, grid: &Grid) -> Value {
    let mut responses = Map::new();
    for (status, answer) in &route.answers {
        responses.insert((*status).to_owned(), response(answer));
    }
    let problem = json!({"application/problem+json": {"schema": reference("Problem")}});
    let refused = |why: &str| json!({"description": why, "content": problem});
    responses.insert("default".to_owned(), refused("A problem"));
    // Browsers accept `text/html`, and will receive a page instead.
    let either = json!({
        "application/problem+json": {"schema": reference("Problem")},
        "text/html": {"schema": {"type": "string"}},
    });
    for (status, why) in NO_ACCESS {
        responses.insert(status.to_owned(), json!({"description": why, "content": either}));
    }
    if !route.parameters.is_empty() {
        let why = "A parameter is not as described, and the problem names it: also a range that \
                   ends before it begins, or has more buckets than an answer may have";
        responses.insert("400".to_owned(), refused(why));
    }
    for (status, why) in &route.refusals {
        responses.insert((*status).to_owned(), refused(why));
    }
    let parameters = route.parameters.iter().map(|described| parameter(described, grid));
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some((kind, meaning)) = route.body {
        let content = json!({kind: {"schema": {"type": "string"}}});
        operation["requestBody"] = json!({"description": meaning, "content": content});
    }
    if let Some(most) = route.most {
        operation["description"] = most.into();
    }
    operation
}

fn response(answer: &Answer) -> Value {
    match answer {
        Answer::Nothing => json!({"description": "No content"}),
        Answer::Json(name) => {
            json!({"description": name, "content": {"application/json": {"schema": reference(name)}}})
        }
        Answer::Text(kind, meaning) => {
            let form = if *kind == "application/json" { "object" } else { "string" };
            json!({"description": meaning, "content": {*kind: {"schema": {"type": form}}}})
        }
        Answer::File => {
            let text = json!({"schema": {"type": "string"}});
            let content = json!({"text/csv": text, "application/x-ndjson": text});
            json!({"description": "A line for each sample; as NDJSON each is a Line", "content": content})
        }
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn parameter(described: &parameter::Description, grid: &Grid) -> Value {
    let schema = (described.schema)(grid);
    let is_list = schema["type"] == "array";
    let mut parameter = json!({
        "name": described.name,
        "in": if described.is_header { "header" } else { "query" },
        "required": described.is_required(),
        "description": described.text,
        "schema": schema,
    });
    // Forms also send empty fields.
    if !described.is_header && !described.is_required() && !described.has_empty_value {
        parameter["allowEmptyValue"] = true.into();
    }
    if let Some(example) = described.example {
        parameter["example"] = if is_list { json!([example]) } else { example.into() };
    }
    parameter
}
