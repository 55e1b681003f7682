//! The switch to ignore a browser, i.e. to set or remove the cookie that the layer recognizes.

use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use counter_layer::Ignore;
use http::HeaderValue;
use http::header::SET_COOKIE;

use super::routes::{Rejection, see_other};
use crate::access::page::below;
use crate::access::right::IGNORE_FORM;
use crate::mount::Mount;
use crate::upload::{MAX_FORM_BYTES, Upload};

/// A year, in seconds.
const MAX_AGE: u32 = 365 * 86_400;

/// Returns the route that ignores a browser.
pub(crate) fn ignore_pages() -> Router {
    Router::new().route(IGNORE_FORM, post(set))
}

/// Sets or removes the cookie, and redirects back to the page.
async fn set(Extension(mount): Extension<Mount>, form: Upload) -> Result<Response, Rejection> {
    let form = form.read(MAX_FORM_BYTES).await?;
    let (mut is_ignored, mut to) = (false, String::new());
    for (name, value) in form_urlencoded::parse(&form) {
        match &*name {
            "ignore" => is_ignored = value == "1",
            "to" => to = below(&value).unwrap_or_default().to_owned(),
            _ => {}
        }
    }
    // The site is served from other paths of the host, and maybe without TLS.
    let (name, age) = (Ignore::COOKIE, if is_ignored { MAX_AGE } else { 0 });
    let cookie = format!("{name}=1; Max-Age={age}; Path=/; HttpOnly; SameSite=Lax");
    let mut response = see_other(&mount, &to);
    response.headers_mut().append(SET_COOKIE, HeaderValue::try_from(cookie).expect("a valid header"));
    Ok(response)
}
