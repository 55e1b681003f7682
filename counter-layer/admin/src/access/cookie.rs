//! The session cookie.

use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use crate::mount::Mount;

const COOKIE_NAME: &str = "counter_session";

/// Maximum number of cookies to read. Nested routers can each set a cookie.
const MAX_COOKIES: usize = 4;

/// Returns the values of the session cookies in a request.
pub(crate) fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    named(headers, COOKIE_NAME).take(MAX_COOKIES)
}

/// Returns the values of all cookies with this name.
pub(crate) fn named<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns a header that sets the session. It is only sent to this router, and removed when the browser is
/// closed.
///
/// We use `SameSite=Lax`, because with `Strict` a link on another site (e.g. in a webmail) would not log in:
/// the browser would not send the cookie with the redirect that follows. With `Lax`, it is sent if the user
/// follows a link. This is a `GET`, which does not change anything, and other sites can't read or frame the
/// response. It is not sent with requests that change something, and we check the origin of these as well;
/// see [`super::origin`].
pub(crate) fn set(session: &str, parts: &Parts, secure: bool) -> Option<HeaderValue> {
    write(session, parts, secure, "")
}

/// Returns a header that removes the session from the browser.
pub(crate) fn remove(parts: &Parts, secure: bool) -> Option<HeaderValue> {
    write("", parts, secure, "; Max-Age=0")
}

fn write(value: &str, parts: &Parts, secure: bool, age: &str) -> Option<HeaderValue> {
    let mount = parts.extensions.get::<Mount>().map_or("", Mount::path);
    // If the mount path has a parameter, the client controls it.
    if mount.contains(';') {
        return None;
    }
    let mount = if mount.is_empty() { "/" } else { mount };
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={value}; Path={mount}; HttpOnly; SameSite=Lax{age}{secure}");
    HeaderValue::try_from(cookie).ok()
}
