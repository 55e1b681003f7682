//! Pages for those who are not in yet, or not any more. They need no script and no style.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::admin::escape::escape;
use crate::admin::mount::Mount;

/// The path that begins a session by the token of a form.
pub(crate) const LOGIN: &str = "/login";

/// The field of the form with the token.
pub(crate) const TOKEN: &str = "token";

/// The field of the form with the page that was asked for, as a path below the router.
pub(crate) const TO: &str = "to";

/// Returns `true` if the client is one that shows pages, as browsers say and programs do not.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

/// Writes a page with this title and these words, and with a form for the token that leads to `to`.
pub(crate) fn write(title: &str, words: &str, form: Option<(&Mount, &str)>) -> String {
    let (title, words) = (escape(title), escape(words));
    let form = form.map_or_else(String::new, |(mount, to)| {
        let (action, to) = (escape(&mount.address(LOGIN)), escape(to));
        // Browsers want a name beside a password that they keep.
        format!(
            "<form method=\"post\" action=\"{action}\"><input type=\"hidden\" name=\"{TO}\" value=\"{to}\">\
             <input name=\"user\" autocomplete=\"username\" hidden>\
             <p><label for=\"{TOKEN}\">Admin token</label> <input id=\"{TOKEN}\" name=\"{TOKEN}\" \
             type=\"password\" autocomplete=\"current-password\" required></p>\
             <p><button>Log in</button></p></form>"
        )
    });
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"></head><body><main><h1>{title}</h1><p>{words}</p>{form}</main>\
         </body></html>\n"
    )
}

/// Returns what a form says of the page that was asked for, if that is a path below the router.
pub(crate) fn below(to: &str) -> Option<&str> {
    let is_below = to.is_empty() || to.starts_with(['/', '?']);
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (is_below && is_plain).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_want_pages_and_programs_do_not() {
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
            assert_eq!(is_wanted(&headers), wanted, "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn a_form_leads_below_the_router_only() {
        for (to, is_below) in [
            ("", true),
            ("/", true),
            ("/counter?counter=%2F", true),
            ("?q=a", true),
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
