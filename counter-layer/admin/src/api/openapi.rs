//! The OpenAPI document. The schemas are derived from the response types.

use axum::response::Response;
use counter_core::Stats;
use counter_core::fleet::Site;
use counter_core::time::Grid;
use serde_json::{Map, Value, json};

use super::parameter::{self, RequestParts};
use super::route::{Catalog, Description, ResponseKind, Route};
use super::site::SITE;
use super::{caching, schema};
use crate::problem::Details;

/// The path of the OpenAPI document.
const PATH: &str = "/api/openapi.json";

/// Responses to clients without access.
const NO_ACCESS: [(&str, &str); 3] = [
    ("401", "The request does not contain valid credentials"),
    ("403", "The client does not have this right"),
    ("429", "Too many failed logins; these credentials were not checked"),
];

pub(crate) fn route(stats: &Stats, catalog: &Catalog) -> Route {
    Route::get(PATH, "The OpenAPI document of this API", (stats.clone(), catalog.clone()), openapi)
        .text("application/json", "OpenAPI 3.1")
        .cached()
}

async fn openapi(
    RequestParts { state: (stats, catalog), mount, headers, .. }: RequestParts<(Stats, Catalog), ()>,
) -> Response {
    caching::json_response(&headers, None, &describe(&mount, catalog.descriptions(), &stats))
}

fn describe(mount: &str, routes: &[Description], stats: &Stats) -> Value {
    let mut paths = Map::new();
    // OpenAPI paths must start with a slash, so we can't describe the dashboard of a nested router without a
    // trailing slash.
    for route in routes.iter().filter(|route| mount.is_empty() || route.path != "/") {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route, stats);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Access counters",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are Unix seconds. A range contains the buckets that start at or after `from` \
                            and before `to`. It must not be empty. The default is all retained buckets, \
                            or the latest buckets that fit into a response. To read older buckets from an \
                            archive, set `from`. The limits are described for each route, \
                            and `/api` returns how far back you can read each precision.",
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
    let json = |schema| serde_json::to_value(schema).expect("schemas can be serialized");
    all.into_iter().map(|(name, schema)| (name, json(schema))).collect()
}

fn operation(route: &Description, stats: &Stats) -> Value {
    let mut responses = Map::new();
    for (status, response_kind) in &route.responses {
        responses.insert((*status).to_owned(), response(response_kind));
    }
    // Browsers accept `text/html`, and will receive a page instead.
    let either = json!({
        "application/problem+json": {"schema": reference("Problem")},
        "text/html": {"schema": {"type": "string"}},
    });
    let error = |why: &str| json!({"description": why, "content": either});
    responses.insert("default".to_owned(), error("A problem"));
    for (status, why) in NO_ACCESS {
        responses.insert(status.to_owned(), error(why));
    }
    if !route.parameters.is_empty() {
        let why = "A parameter is invalid, e.g. the range is empty \
                   or has too many buckets; the problem contains the name";
        responses.insert("400".to_owned(), error(why));
    }
    for (status, why) in &route.errors {
        responses.insert((*status).to_owned(), error(why));
    }
    let parameters = route.parameters.iter().map(|described| parameter(described, stats.grid()));
    let parameters = parameters.chain(site(stats).filter(|_| route.method == "get"));
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some((kind, meaning)) = route.body {
        let content = json!({kind: {"schema": {"type": "string"}}});
        operation["requestBody"] = json!({"description": meaning, "content": content});
    }
    if let Some(details) = route.details {
        operation["description"] = details.into();
    }
    operation
}

/// Describes the parameter that selects a site of a fleet.
fn site(stats: &Stats) -> Option<Value> {
    let names: Vec<_> = stats.sites().iter().map(Site::name).collect();
    let parameter = json!({
        "name": SITE,
        "in": "query",
        "required": false,
        "description": "The site to read. The default is all sites.",
        "schema": {"type": "string", "enum": names},
        "allowEmptyValue": true,
    });
    (!names.is_empty()).then_some(parameter)
}

fn response(response_kind: &ResponseKind) -> Value {
    match response_kind {
        ResponseKind::Empty => json!({"description": "No content"}),
        ResponseKind::Json(name) => {
            json!({"description": name, "content": {"application/json": {"schema": reference(name)}}})
        }
        ResponseKind::Text(kind, meaning) => {
            let form = if *kind == "application/json" { "object" } else { "string" };
            json!({"description": meaning, "content": {*kind: {"schema": {"type": form}}}})
        }
        ResponseKind::File => {
            let text = json!({"schema": {"type": "string"}});
            let content = json!({"text/csv": text, "application/x-ndjson": text});
            json!({"description": "A line per sample; in NDJSON a Line", "content": content})
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
