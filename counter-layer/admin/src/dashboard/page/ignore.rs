//! The switch to ignore a browser, i.e. to set or remove the cookie that the layer recognizes.

use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use counter_layer::Ignore;
use http::HeaderValue;
use http::header::SET_COOKIE;

use super::routes::see_other;
use crate::access::form::Form;
use crate::access::right::IGNORE_FORM;
use crate::mount::Mount;

/// A year, in seconds.
const MAX_AGE: u32 = 365 * 86_400;

/// Returns the route that ignores a browser.
pub(crate) fn ignore_pages() -> Router {
    Router::new().route(IGNORE_FORM, post(set))
}

/// Sets or removes the cookie, and redirects back to the page.
async fn set(Extension(mount): Extension<Mount>, form: Form) -> Response {
    // The site is served from other paths of the host, and maybe without TLS.
    let (name, age) = (Ignore::COOKIE, if form.field("ignore") == "1" { MAX_AGE } else { 0 });
    let cookie = format!("{name}=1; Max-Age={age}; Path=/; HttpOnly; SameSite=Lax");
    let mut response = see_other(&mount, form.to());
    response.headers_mut().append(SET_COOKIE, HeaderValue::try_from(cookie).expect("a valid header"));
    response
}
