//! The description of the routes. Its schemas are those of the very types that are sent.

use axum::extract::{OriginalUri, State};
use axum::response::Response;
use counter_core::{CounterName, Grid, Precisions, Stats, Store};
use http::HeaderMap;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::export::Line;
use super::{caching, numbers, response};
use crate::admin::problem::Details;
use crate::admin::status;

/// What is told of one method of one path.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [(&'static str, Times)],
    answers: &'static [(&'static str, Answer)],
}

/// How often a parameter stands in a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    Once,
    AtMostOnce,
    /// As often as one likes, and at least once.
    Several,
    AnyNumber,
}

/// What is in an answer.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    /// JSON, of the schema of this name.
    Json(&'static str),
    /// Text of this kind, and what it means.
    Text(&'static str, &'static str),
    /// Samples, in one of the two formats of a file.
    File,
}

use Answer::{File, Json, Nothing, Text};
use Times::{AnyNumber, AtMostOnce, Once, Several};

const ROOT: (&str, &[(&str, Answer)]) = if cfg!(feature = "dashboard") {
    ("The dashboard", &[("200", Text("text/html", "A page for people"))])
} else {
    ("The paths that can be read", &[("200", Json("Index"))])
};

pub(crate) const ROUTES: &[Route] = &[
    Route { method: "get", path: "/", summary: ROOT.0, parameters: &[], answers: ROOT.1 },
    Route {
        method: "get",
        path: "/api",
        summary: "The paths that can be read",
        parameters: &[],
        answers: &[("200", Json("Index"))],
    },
    Route {
        method: "get",
        path: "/api/counters",
        summary: "A page of the known counters, by name",
        parameters: &[("after", AtMostOnce), ("limit", AtMostOnce)],
        answers: &[("200", Json("Counters"))],
    },
    Route {
        method: "delete",
        path: "/api/counters",
        summary: "Forgets a counter: samples, visitors and lifetime total",
        parameters: &[("counter", Once)],
        answers: &[("204", Nothing)],
    },
    Route {
        method: "get",
        path: "/api/series",
        summary: "The samples of one counter, or of several",
        parameters: &[
            ("counter", Several),
            ("precision", AtMostOnce),
            ("from", AtMostOnce),
            ("to", AtMostOnce),
            ("fill", AtMostOnce),
        ],
        answers: &[("200", Json("OneOrMore")), ("304", Nothing)],
    },
    Route {
        method: "get",
        path: "/api/total",
        summary: "The sum of the samples of a counter",
        parameters: &[("counter", Once), ("precision", Once), ("from", AtMostOnce), ("to", AtMostOnce)],
        answers: &[("200", Json("Total")), ("304", Nothing)],
    },
    Route {
        method: "get",
        path: "/api/lifetimes",
        summary: "Everything that counters ever counted",
        parameters: &[("counter", Several)],
        answers: &[("200", Json("Lifetimes"))],
    },
    Route {
        method: "get",
        path: "/api/top",
        summary: "The counters with the most hits",
        parameters: &[
            ("precision", Once),
            ("from", AtMostOnce),
            ("to", AtMostOnce),
            ("limit", AtMostOnce),
            ("prefix", AtMostOnce),
        ],
        answers: &[("200", Json("Top")), ("304", Nothing)],
    },
    #[cfg(feature = "forecast")]
    Route {
        method: "get",
        path: "/api/forecast",
        summary: "What a counter is expected to count",
        parameters: &[("counter", Once), ("precision", Once), ("horizon", AtMostOnce)],
        answers: &[("200", Json("Forecast"))],
    },
    Route {
        method: "get",
        path: "/api/uniques",
        summary: "How many different visitors counters had together, estimated",
        parameters: &[("counter", Several), ("precision", Once), ("from", AtMostOnce), ("to", AtMostOnce)],
        answers: &[("200", Json("Uniques")), ("304", Nothing)],
    },
    Route {
        method: "get",
        path: "/api/live",
        summary: "Samples as they change, ledger and health",
        parameters: &[("counter", Several), ("precision", Once), ("last-event-id", AtMostOnce)],
        answers: &[(
            "200",
            Text(
                "text/event-stream",
                "Events `series` with a Series, `status` with a Standing, and `trouble` with a Problem",
            ),
        )],
    },
    Route {
        method: "get",
        path: "/api/export",
        summary: "The samples of all counters, or of those that are named, as a file",
        parameters: &[
            ("counter", AnyNumber),
            ("precision", Once),
            ("from", AtMostOnce),
            ("to", AtMostOnce),
            ("format", AtMostOnce),
        ],
        answers: &[("200", File)],
    },
    Route {
        method: "get",
        path: "/api/ledger",
        summary: "What happened to everything this process has seen",
        parameters: &[],
        answers: &[("200", Json("Ledger"))],
    },
    Route {
        method: "get",
        path: "/api/health",
        summary: "How this process's way to the store is doing",
        parameters: &[],
        answers: &[("200", Json("Health")), ("503", Json("Health"))],
    },
    Route {
        method: "get",
        path: "/api/openapi.json",
        summary: "This description",
        parameters: &[],
        answers: &[("200", Text("application/json", "OpenAPI 3.1")), ("304", Nothing)],
    },
    Route {
        method: "get",
        path: "/api/explore",
        summary: "A page to try these routes on",
        parameters: &[],
        answers: &[("200", Text("text/html", "The page"))],
    },
    Route {
        method: "get",
        path: "/metrics",
        summary: "Ledger, health and lifetimes for Prometheus",
        parameters: &[],
        answers: &[("200", Text("text/plain", "Text format 0.0.4"))],
    },
    Route {
        method: "get",
        path: "/badge.svg",
        summary: "The lifetime total of a counter, or its total over a range, as a small picture",
        parameters: &[
            ("counter", Once),
            ("precision", AtMostOnce),
            ("from", AtMostOnce),
            ("to", AtMostOnce),
            ("label", AtMostOnce),
        ],
        answers: &[("200", Text("image/svg+xml", "A badge")), ("304", Nothing)],
    },
    Route {
        method: "get",
        path: "/sparkline.svg",
        summary: "The samples of a counter as a small line",
        parameters: &[("counter", Once), ("precision", AtMostOnce), ("from", AtMostOnce), ("to", AtMostOnce)],
        answers: &[("200", Text("image/svg+xml", "A line")), ("304", Nothing)],
    },
];

pub(crate) async fn openapi<S: Store>(
    State(stats): State<Stats<S>>,
    OriginalUri(uri): OriginalUri,
    asked: HeaderMap,
) -> Response {
    let mount = uri.path().strip_suffix("/api/openapi.json").unwrap_or_default();
    caching::answer(&asked, None, &describe(mount, stats.grid()))
}

fn describe(mount: &str, grid: &Grid) -> Value {
    let mut paths = Map::new();
    // A path begins with a slash: where the first page has none at its end, it cannot be told of.
    for route in ROUTES.iter().filter(|route| mount.is_empty() || route.path != "/") {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = route.describe(grid);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Access counters",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are Unix seconds. A range has the buckets that start at or after `from` \
                            and before `to`, and ends after it begins; without them it is all that is \
                            kept, and where that is more than an answer may have, the latest of it. What an \
                            answer may have is told of each route.",
        },
        "servers": [{"url": if mount.is_empty() { "/" } else { mount }}],
        // Which of them there are is for the site to say.
        "security": [{"bearer": []}, {"basic": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "counter_session"},
            },
        },
    })
}

fn schemas() -> Map<String, Value> {
    let mut all = Vec::new();
    add::<numbers::Index>(&mut all);
    add::<response::Counters>(&mut all);
    add::<response::OneOrMore>(&mut all);
    add::<response::Total>(&mut all);
    add::<response::Lifetimes>(&mut all);
    add::<response::Top>(&mut all);
    add::<response::Uniques>(&mut all);
    #[cfg(feature = "forecast")]
    add::<super::forecast::Forecast>(&mut all);
    add::<status::Standing>(&mut all);
    add::<Line<'_>>(&mut all);
    add::<Details>(&mut all);
    let json = |schema| serde_json::to_value(schema).expect("a schema has a form in JSON");
    all.into_iter().map(|(name, schema)| (name, json(schema))).collect()
}

type Named = (String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>);

/// A type and those that it is made of.
fn add<T: ToSchema>(all: &mut Vec<Named>) {
    T::schemas(all);
    all.push((T::name().into_owned(), T::schema()));
}

impl Route {
    fn describe(&self, grid: &Grid) -> Value {
        let kept = if self.path == "/api/uniques" { &grid.visitors } else { &grid.counts };
        let mut responses = Map::new();
        for (status, answer) in self.answers {
            responses.insert((*status).to_owned(), answer.describe());
        }
        let problem = json!({"application/problem+json": {"schema": reference("Problem")}});
        let mut refused = |status: &str, why: &str| {
            responses.insert(status.to_owned(), json!({"description": why, "content": problem}));
        };
        refused("default", "A problem");
        if !self.parameters.is_empty() {
            let why = "A parameter is not as it is described, which the problem names: also a range that \
                       ends before it begins, or has more buckets than an answer may have";
            refused("400", why);
        }
        match self.path {
            "/api/forecast" => refused("422", "The history is too short, or the horizon too far for it"),
            "/api/top" => refused("422", "There are more than 10,000 counters"),
            _ => {}
        }
        let mut described = json!({
            "summary": self.summary,
            "parameters": self.parameters.iter().map(|of| parameter(*of, kept)).collect::<Vec<_>>(),
            "responses": responses,
        });
        if let Some(most) = self.most() {
            described["description"] = most.into();
        }
        described
    }

    /// What an answer may have, which no schema can say, since it is about several parameters.
    fn most(&self) -> Option<&'static str> {
        match self.path {
            "/api/series" => Some("At most 10,000 buckets of one counter, and 300,000 of several together."),
            "/api/total" | "/api/export" => Some("At most 10,000 buckets of each counter."),
            "/badge.svg" => Some("At most 10,000 buckets."),
            "/sparkline.svg" => Some("At most 1,000 buckets."),
            "/api/uniques" => Some("At most 1,000 buckets of all counters together."),
            "/api/top" => Some(
                "At most 10,000 buckets of each counter, 10,000,000 of all together, and 10,000 counters; \
                 without `from` the latest 1,000.",
            ),
            "/api/forecast" => {
                Some("The horizon is at most half of the history, which has 20 buckets or more.")
            }
            "/api/live" => {
                Some("Of more than 20,000 samples of all counters together, the latest are followed.")
            }
            _ => None,
        }
    }
}

impl Answer {
    fn describe(self) -> Value {
        match self {
            Nothing => json!({"description": "Nothing more"}),
            Json(name) => {
                json!({"description": name, "content": {"application/json": {"schema": reference(name)}}})
            }
            Text(kind, description) => {
                let form = if kind == "application/json" { "object" } else { "string" };
                json!({"description": description, "content": {kind: {"schema": {"type": form}}}})
            }
            File => {
                let text = json!({"schema": {"type": "string"}});
                let content = json!({"text/csv": text, "application/x-ndjson": text});
                json!({"description": "A line for each sample; as NDJSON each is a Line", "content": content})
            }
        }
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn parameter((name, times): (&str, Times), kept: &Precisions) -> Value {
    // Of a counter's name: at most as many characters as bytes, and none for control.
    let named = |shortest: usize| {
        json!({
            "type": "string",
            "minLength": shortest,
            "maxLength": CounterName::MAX_BYTES,
            "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$",
        })
    };
    // A range is not empty, so it neither begins with the last second nor ends before the second one.
    let time = |first: u64, last: u64| json!({"type": "integer", "minimum": first, "maximum": last});
    let last = counter_core::Timestamp::MAX.as_unix();
    let (schema, description) = match name {
        "precision" => {
            let kept: Vec<_> = kept.iter().map(|kept| kept.precision.as_seconds()).collect();
            let described = match times {
                AtMostOnce => "The width of the buckets, in seconds; without it 60, or the smallest",
                _ => "The width of the buckets, in seconds",
            };
            (json!({"type": "integer", "enum": kept}), described)
        }
        "from" => (time(0, last - 1), "The first second of the range, before `to` and before now"),
        "to" => (time(1, last), "The first second after the range, after `from` and after the oldest bucket"),
        "fill" => (json!({"enum": ["none", "zero"]}), "`zero` for a sample of every bucket"),
        "format" => (json!({"enum": ["csv", "ndjson"]}), "How the file is written"),
        "limit" => (json!({"type": "integer", "minimum": 1, "maximum": 1000}), "How many at most"),
        "horizon" => {
            (json!({"type": "integer", "minimum": 1, "maximum": 500}), "How many buckets to forecast")
        }
        "prefix" => (json!({"type": "string"}), "What the names begin with"),
        "label" => (json!({"type": "string", "minLength": 1, "maxLength": 100}), "What stands on the left"),
        "last-event-id" => (json!({"type": "string"}), "The mark of the last event that arrived"),
        "after" => (named(0), "The `next` of the page before"),
        _ => (named(1), "The name of a counter, of at most 200 bytes in UTF-8"),
    };
    let many = matches!(times, Several | AnyNumber);
    let example = (name == "counter").then(|| if many { json!(["hits"]) } else { json!("hits") });
    let schema = if many { json!({"type": "array", "items": schema, "maxItems": 100}) } else { schema };
    let (is_header, is_required) = (name == "last-event-id", matches!(times, Once | Several));
    let mut parameter = json!({
        "name": name,
        "in": if is_header { "header" } else { "query" },
        "required": is_required,
        "description": description,
        "schema": schema,
    });
    // A form sends what was left empty, and nobody is counted under no name.
    if !is_header && !is_required && name != "counter" {
        parameter["allowEmptyValue"] = true.into();
    }
    if let Some(example) = example {
        parameter["example"] = example;
    }
    parameter
}
