use std::fmt;

use counter_core::window::Window;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::decision::Quota;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The description of a limit, in the fields of draft-ietf-httpapi-ratelimit-headers-11.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    /// The value of `RateLimit-Policy`: `"default";q=100;w=60`.
    whole: HeaderValue,
    limit: u32,
    window: Window,
}

/// The error of a policy name that is empty, longer than 64 bytes, or not printable ASCII.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyNameError(String);

impl Policy {
    pub(super) fn new(name: &str, limit: u32, window: Window) -> Result<Self, PolicyNameError> {
        let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let no = || PolicyNameError(name.to_owned());
        if name.is_empty() || name.len() > 64 || !printable {
            return Err(no());
        }
        let whole = format!("{};q={limit};w={}", quoted(name), window.as_seconds());
        let whole = HeaderValue::try_from(whole).map_err(|_| no())?;
        Ok(Self { name: name.to_owned(), whole, limit, window })
    }

    /// Returns the policy under another name.
    pub(super) fn renamed(&self, name: &str) -> Result<Self, PolicyNameError> {
        Self::new(name, self.limit, self.window)
    }

    /// Tells the policy, and what is left of it now; further ones may be there already.
    pub(super) fn write(&self, quota: &Quota, headers: &mut HeaderMap) {
        let left = format!("{};r={};t={}", quoted(&self.name), quota.remaining, quota.seconds());
        if let Ok(left) = HeaderValue::try_from(left) {
            headers.append(RATELIMIT, left);
        }
        headers.append(RATELIMIT_POLICY, self.whole.clone());
    }
}

/// Tells when to come again.
pub(super) fn retry_after(seconds: u64, headers: &mut HeaderMap) {
    headers.insert(RETRY_AFTER, seconds.max(1).into());
}

/// A string as structured fields have it, and JSON, for printable ASCII.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for PolicyNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a policy has 1 to 64 bytes of printable ASCII, unlike {:?}", self.0)
    }
}

impl std::error::Error for PolicyNameError {}

crate::debug::debug_in_full!(PolicyNameError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_what_no_header_can_hold_is_refused() {
        let policy = |name: &str| Policy::new(name, 100, Window::MINUTE);
        for (name, whole) in [
            ("default", r#""default";q=100;w=60"#),
            ("a b", r#""a b";q=100;w=60"#),
            (r#"a"b\"#, r#""a\"b\\";q=100;w=60"#),
        ] {
            assert_eq!(policy(name).expect("a name").whole, whole);
        }
        for name in ["", "é", "a\nb", &"x".repeat(65)] {
            assert_eq!(policy(name).expect_err("no name"), PolicyNameError(name.to_owned()));
        }
    }
}
