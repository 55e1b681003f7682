//! A page on which every route can be tried, made of its description. It needs no script and no style.

use std::fmt::Write;

use axum::response::{Html, IntoResponse, Response};

use super::openapi::{ROUTES, Route, Times};

pub(crate) async fn explore() -> Response {
    let mut page = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
                    <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"icon\" href=\"data:,\">\
                    <title>Access counters: API</title></head><body><main><h1>Access counters: API</h1>\
                    <p>Described by <a href=\"openapi.json\">OpenAPI</a>. Times are Unix seconds.</p>"
        .to_owned();
    for route in ROUTES {
        section(&mut page, route).expect("a text takes all");
    }
    page.push_str("</main></body></html>\n");
    Html(page).into_response()
}

/// All that stands here is ours; no counter is named.
fn section(page: &mut String, route: &Route) -> std::fmt::Result {
    let (method, path) = (route.method.to_uppercase(), route.path);
    write!(page, "<h2><code>{method} {path}</code></h2><p>{}</p>", route.summary)?;
    // A form can only ask, and the first page is where this one is.
    if route.method != "get" || path == "/" {
        return Ok(());
    }
    write!(page, "<form action=\"..{path}\">")?;
    for (name, times) in route.parameters.iter().filter(|(name, _)| *name != "last-event-id") {
        let required = if matches!(times, Times::Once | Times::Several) { " required" } else { "" };
        write!(page, "<label>{name} <input name=\"{name}\"{required}></label> ")?;
    }
    page.push_str("<button>Ask</button></form>");
    Ok(())
}
