//! Reading one cookie of a request (RFC 6265, section 4.2).

use http::{HeaderMap, header};

/// Whether a cookie can have this name: a token of RFC 9110.
pub(super) fn is_name(name: &str) -> bool {
    let signs = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(signs)
}

/// The value of the first cookie of this name, unless it is empty.
pub(super) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let cookies = headers.get_all(header::COOKIE).iter().flat_map(|all| all.as_bytes().split(|b| *b == b';'));
    let named = |cookie: &'a [u8]| cookie.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    cookies.filter_map(named).next().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::COOKIE, line.parse().expect("a value"));
        }
        assert_eq!(value(&headers, "visitor"), expected.map(str::as_bytes), "{lines:?}");
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        check(&[], None);
        check(&["visitor=a1"], Some("a1"));
        check(&["theme=dark; visitor=a1; x=y"], Some("a1"));
        check(&["theme=dark;visitor=a=b"], Some("a=b"));
        check(&["theme=dark", "visitor=a1"], Some("a1"));
        check(&["visitor=a1; visitor=b2"], Some("a1"));
        check(&["visitors=a1; Visitor=b2; my-visitor=c3"], None);
        check(&["visitor="], None);
        check(&["visitor"], None);
    }

    #[test]
    fn a_name_is_a_token() {
        assert!(is_name("__Host-visitor"));
        for name in ["", "a=b", "a;b", "a b", "é"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
