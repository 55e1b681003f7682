//! A page to try the routes, generated from the descriptions. This needs neither scripts nor styles.

use std::fmt::Write;

use axum::response::{Html, IntoResponse, Response};

use super::parameter::RequestParts;
use super::route::{Catalog, Description, Route};

pub(crate) fn route(catalog: &Catalog) -> Route {
    Route::get("/api/explore", "A page to try these routes", catalog.clone(), explore)
        .text("text/html", "The page")
}

async fn explore(RequestParts { state: catalog, .. }: RequestParts<Catalog, ()>) -> Response {
    let mut page = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
                    <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"icon\" href=\"data:,\">\
                    <title>Access counters: API</title></head><body><main><h1>Access counters: API</h1>\
                    <p>Described by <a href=\"openapi.json\">OpenAPI</a>. Times are Unix seconds.</p>"
        .to_owned();
    for route in catalog.descriptions() {
        section(&mut page, route).expect("writing to a string never fails");
    }
    page.push_str("</main></body></html>\n");
    Html(page).into_response()
}

/// Appends the section of a route. It doesn't escape anything, because the page does not contain counter
/// names.
fn section(page: &mut String, route: &Description) -> std::fmt::Result {
    let (method, path) = (route.method.to_uppercase(), route.path);
    write!(page, "<h2><code>{method} {path}</code></h2><p>{}</p>", route.summary)?;
    // We only create forms for GET routes, and not for the dashboard.
    if route.method != "get" || path == "/" {
        return Ok(());
    }
    write!(page, "<form action=\"..{path}\">")?;
    for parameter in route.parameters.iter().filter(|parameter| !parameter.is_header) {
        let name = parameter.name;
        let required = if parameter.is_required() { " required" } else { "" };
        write!(page, "<label>{name} <input name=\"{name}\"{required}></label> ")?;
    }
    page.push_str("<button>Send</button></form>");
    Ok(())
}
