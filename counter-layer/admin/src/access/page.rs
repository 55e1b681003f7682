//! Pages for clients that are not logged in. These need neither scripts nor styles.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::mount::Mount;
use crate::text::escape::escape;

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
    Empty,
    /// A login form, which redirects to this path below the router.
    LogIn(&'a Mount, &'a str),
    /// A link to the dashboard.
    Back(&'a Mount),
}

/// Writes a page with a title and a text.
pub(crate) fn write(title: &str, words: &str, next: Next<'_>) -> String {
    let (title, words) = (escape(title), escape(words));
    let next = match next {
        Next::Empty => String::new(),
        Next::LogIn(mount, to) => form(mount, to),
        Next::Back(mount) => {
            format!("<p><a href=\"{}\">Back to the dashboard</a></p>", escape(&mount.first()))
        }
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"></head><body><main><h1>{title}</h1><p>{words}</p>{next}</main>\
         </body></html>\n"
    )
}

fn form(mount: &Mount, to: &str) -> String {
    let (action, to) = (escape(&mount.address(LOGIN)), escape(to));
    // Password managers expect a user name.
    format!(
        "<form method=\"post\" action=\"{action}\"><input type=\"hidden\" name=\"{TO}\" value=\"{to}\">\
         <input name=\"user\" autocomplete=\"username\" hidden>\
         <p><label for=\"{TOKEN}\">Admin token</label> <input id=\"{TOKEN}\" name=\"{TOKEN}\" \
         type=\"password\" autocomplete=\"current-password\" required></p>\
         <p><button>Sign in</button></p></form>"
    )
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
