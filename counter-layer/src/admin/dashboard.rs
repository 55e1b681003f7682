//! The pages for people: complete as they are served, and kept up to date by a small script.

mod assets;
mod glance;
mod listing;
mod outlook;
mod page;
mod period;
mod plot;
pub(super) mod text;
mod view;

use askama::Template;
use axum::Router;
use axum::extract::{OriginalUri, RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use counter_core::{Error, Stats, Store, Timestamp};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, StatusCode, Uri};

use page::{Counter, Frame, Moving, Parts, Site, Trouble};
use view::{Page, View};

/// What a page may do: load its own style and script, ask its own server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The pages, with what they are made of.
pub(super) fn routes<S: Store>() -> Router<Stats<S>> {
    Router::new()
        .route("/", get(site))
        .route("/parts", get(site_parts))
        .route("/counter", get(counter))
        .route("/counter/parts", get(counter_parts))
        .route("/assets/{hash}/{name}", get(assets::asset))
}

async fn site<S: Store>(
    State(stats): State<Stats<S>>,
    OriginalUri(uri): OriginalUri,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(view) = view(&stats, &uri, "/", Page::Site, query.as_deref()) else { return no_precisions() };
    let frame = Frame::of(&view);
    answer(&stats, &frame, Site::read(&stats, &view, Timestamp::now()).await)
}

async fn site_parts<S: Store>(
    State(stats): State<Stats<S>>,
    OriginalUri(uri): OriginalUri,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(view) = view(&stats, &uri, "/parts", Page::Site, query.as_deref()) else {
        return no_precisions();
    };
    let frame = Frame::of(&view);
    answer(&stats, &frame, Moving::read(&stats, &view, Timestamp::now()).await.map(|moving| Parts { moving }))
}

async fn counter<S: Store>(
    State(stats): State<Stats<S>>,
    OriginalUri(uri): OriginalUri,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(view) = view(&stats, &uri, "/counter", Page::Counter, query.as_deref()) else {
        return no_precisions();
    };
    let frame = Frame::of(&view);
    match stats.knows(&view.counters[0]).await {
        Ok(true) => answer(&stats, &frame, Counter::read(&stats, &view, Timestamp::now()).await),
        Ok(false) => {
            let text = format!("There is no counter with the name {}.", view.counters[0]);
            html(StatusCode::NOT_FOUND, &Trouble::of(&stats, &frame, "No such counter", text))
        }
        Err(error) => trouble(&stats, &frame, &error),
    }
}

async fn counter_parts<S: Store>(
    State(stats): State<Stats<S>>,
    OriginalUri(uri): OriginalUri,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(view) = view(&stats, &uri, "/counter/parts", Page::Counter, query.as_deref()) else {
        return no_precisions();
    };
    let frame = Frame::of(&view);
    answer(&stats, &frame, Moving::read(&stats, &view, Timestamp::now()).await.map(|moving| Parts { moving }))
}

fn view<S: Store>(stats: &Stats<S>, uri: &Uri, own: &str, page: Page, query: Option<&str>) -> Option<View> {
    let mount = uri.path().strip_suffix(own).unwrap_or(uri.path()).trim_end_matches('/');
    View::of(mount, page, query.unwrap_or_default(), &stats.grid().counts)
}

fn answer<S: Store>(stats: &Stats<S>, frame: &Frame, page: Result<impl Template, Error>) -> Response {
    match page {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => trouble(stats, frame, &error),
    }
}

/// The store cannot be read; what this process knows is shown all the same.
fn trouble<S: Store>(stats: &Stats<S>, frame: &Frame, error: &Error) -> Response {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%error, cause, "the dashboard cannot be read");
    let page = Trouble::of(stats, frame, "The numbers cannot be read now", error.to_string());
    html(StatusCode::SERVICE_UNAVAILABLE, &page)
}

/// A set of precisions is never empty, so this is never seen.
fn no_precisions() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

fn html(status: StatusCode, page: &impl Template) -> Response {
    let head: [(HeaderName, &str); 5] = [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    match page.render() {
        Ok(text) => (status, head, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the dashboard cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
