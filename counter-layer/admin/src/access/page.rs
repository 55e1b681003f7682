//! Pages with a message: the login page and error pages. These do not need scripts.

use askama::Template;
use http::HeaderMap;
use http::header::ACCEPT;

use super::assets;
use crate::mount::Mount;

/// The path to submit the login form to.
pub(crate) const LOGIN: &str = "/login";

/// The form field for the token.
pub(crate) const TOKEN: &str = "token";

/// The form field for the page to redirect to, as a path below the router.
pub(crate) const TO: &str = "to";

/// Returns `true` if the client accepts HTML, i.e. is a browser.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

/// The form or link at the end of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'a> {
    /// A login form, which redirects to this path below the router.
    LogIn(&'a str),
    /// A link to the dashboard.
    Back,
}

/// A page with a message.
#[derive(Debug, Template)]
#[template(path = "pages/message.html", whitespace = "minimize")]
struct MessagePage<'a> {
    style: String,
    icon: String,
    title: &'a str,
    text: &'a str,
    next: Next<'a>,
    login: String,
    first: String,
}

/// Writes a page with a title and a text.
pub(crate) fn write(mount: &Mount, title: &str, text: &str, next: Next<'_>) -> String {
    let page = MessagePage {
        style: mount.address(&assets::style()),
        icon: mount.address(&assets::icon()),
        title,
        text,
        next,
        login: mount.address(LOGIN),
        first: mount.first(),
    };
    page.render().unwrap_or_else(|error| {
        tracing::error!(%error, "failed to render a page");
        title.to_owned()
    })
}

/// Returns the path to redirect to, if it is a path below the router.
pub(crate) fn below(to: &str) -> Option<&str> {
    let is_below = to.is_empty() || to.starts_with(['/', '?']);
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_below && is_plain && !leaves_folder(to)).then_some(to)
}

/// Returns `true` if the path leaves the current folder. We also need to handle encoded dots (URL Standard,
/// "double-dot URL path segment").
fn leaves_folder(to: &str) -> bool {
    let path = to.split(['?', '#']).next().unwrap_or_default();
    path.split('/').any(|segment| segment.to_ascii_lowercase().replace("%2e", ".") == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_browsers_accept_html() {
        for (accept, wanted) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("text/html", true),
            ("application/json, Text/HTML;q=0.1", true),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("text/event-stream", false),
            ("text/htmlx", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("a value"))]);
            assert_eq!(accepts_html(&headers), wanted, "{accept}");
        }
        assert!(!accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn forms_only_redirect_below_the_router() {
        for (to, is_below) in [
            ("", true),
            ("/", true),
            ("/counter?counter=%2F", true),
            ("?q=a", true),
            ("/..a/...?to=/../b", true),
            ("/../b", false),
            ("/counter/../../b", false),
            ("/..", false),
            ("/%2e%2E/b", false),
            ("/.%2e?q=a", false),
            ("https://host/", false),
            ("host", false),
            ("/\\host", false),
            ("/a\r\nb", false),
            ("/é", false),
        ] {
            assert_eq!(below(to).is_some(), is_below, "{to:?}");
        }
    }
}
