//! The cookie that a session is kept in.

use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use crate::mount::Mount;

const NAME: &str = "counter_session";

/// The number of cookies that are read: routers below one another have one each.
const MAX_COOKIES: usize = 4;

/// The values of the cookies of this name.
pub(crate) fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == NAME).map(|(_, value)| value).take(MAX_COOKIES)
}

/// Sets a session, which a browser keeps until it is closed and sends to this router.
///
/// It is `SameSite=Lax` and not `Strict`, or a link on another site, such as one in a mail, would not log in:
/// the redirect that follows it is a part of what the other site began, and a strict cookie would stay away.
/// With `Lax` it is sent if a link is followed, which is a `GET` that changes nothing and whose
/// answer no other site can read or frame. It is not sent with a request that changes something, and the origin of those
/// is checked as well: see [`super::origin`].
pub(crate) fn set(session: &str, parts: &Parts, secure: bool) -> Option<HeaderValue> {
    write(session, parts, secure, "")
}

/// Removes the session of a browser.
pub(crate) fn remove(parts: &Parts, secure: bool) -> Option<HeaderValue> {
    write("", parts, secure, "; Max-Age=0")
}

fn write(value: &str, parts: &Parts, secure: bool, age: &str) -> Option<HeaderValue> {
    let mount = parts.extensions.get::<Mount>().map_or("", Mount::path);
    // A mount with a parameter in it is from the client.
    if mount.contains(';') {
        return None;
    }
    let mount = if mount.is_empty() { "/" } else { mount };
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!("{NAME}={value}; Path={mount}; HttpOnly; SameSite=Lax{age}{secure}");
    HeaderValue::try_from(cookie).ok()
}
