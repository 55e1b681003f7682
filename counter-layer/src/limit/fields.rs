use std::fmt;
use std::io::Write;

use counter_core::window::Window;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::decision::Quota;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Maximum length of a `RateLimit` value: a quoted name with all bytes escaped, and two numbers.
const MAX_FIELD_BYTES: usize = 2 * 64 + 2 + 2 * 3 + 10 + 20;

/// A limit as described in the header fields of draft-ietf-httpapi-ratelimit-headers-11.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    /// The name as a quoted string.
    quoted: String,
    /// The value of `RateLimit-Policy`: `"default";q=100;w=60`.
    policy_value: HeaderValue,
    limit: u32,
    window: Window,
}

/// Error returned for a policy name that is empty, longer than 64 bytes, or not printable ASCII.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyNameError(String);

impl Policy {
    pub(super) fn new(name: &str, limit: u32, window: Window) -> Result<Self, PolicyNameError> {
        let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let no = || PolicyNameError(name.to_owned());
        if name.is_empty() || name.len() > 64 || !printable {
            return Err(no());
        }
        let quoted = quoted(name);
        let policy_value = format!("{quoted};q={limit};w={}", window.as_seconds());
        let policy_value = HeaderValue::try_from(policy_value).map_err(|_| no())?;
        Ok(Self { name: name.to_owned(), quoted, policy_value, limit, window })
    }

    /// Returns this policy with another name.
    pub(super) fn renamed(&self, name: &str) -> Result<Self, PolicyNameError> {
        Self::new(name, self.limit, self.window)
    }

    /// Appends the policy and the remaining quota to the headers, which may already contain other policies.
    pub(super) fn write(&self, quota: &Quota, headers: &mut HeaderMap) {
        let mut text = [0; MAX_FIELD_BYTES];
        let mut buffer = &mut text[..];
        let is_written = write!(buffer, "{};r={};t={}", self.quoted, quota.remaining, quota.seconds());
        let unused = buffer.len();
        if is_written.is_ok()
            && let Ok(left) = HeaderValue::from_bytes(&text[..MAX_FIELD_BYTES - unused])
        {
            headers.append(RATELIMIT, left);
        }
        headers.append(RATELIMIT_POLICY, self.policy_value.clone());
    }
}

/// Sets the `Retry-After` header, in seconds.
pub(super) fn retry_after(seconds: u64, headers: &mut HeaderMap) {
    headers.insert(RETRY_AFTER, seconds.max(1).into());
}

/// Quotes a printable ASCII string for structured fields or JSON.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for PolicyNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid policy name {:?}: expected 1 to 64 bytes of printable ASCII", self.0)
    }
}

impl std::error::Error for PolicyNameError {}

counter_core::internal::debug_in_full!(PolicyNameError);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[test]
    fn the_longest_value_fits_in_the_buffer() {
        let policy = Policy::new(&"\"".repeat(64), 100, Window::MINUTE).expect("a name");
        let (ends, mut headers) =
            (Instant::now() + Duration::from_secs(u64::from(u32::MAX)), HeaderMap::new());
        policy.write(&Quota { remaining: u32::MAX, ends }, &mut headers);
        let expected = format!("{};r={};t={}", policy.quoted, u32::MAX, u32::MAX);
        assert_eq!(headers["ratelimit"], expected);
        assert_eq!(expected.len() + 10, MAX_FIELD_BYTES);
    }

    #[test]
    fn names_are_quoted_and_invalid_names_are_rejected() {
        let policy = |name: &str| Policy::new(name, 100, Window::MINUTE);
        for (name, policy_value) in [
            ("default", r#""default";q=100;w=60"#),
            ("a b", r#""a b";q=100;w=60"#),
            (r#"a"b\"#, r#""a\"b\\";q=100;w=60"#),
        ] {
            assert_eq!(policy(name).expect("a name").policy_value, policy_value);
        }
        for name in ["", "é", "a\nb", &"x".repeat(65)] {
            assert_eq!(policy(name).expect_err("no name"), PolicyNameError(name.to_owned()));
        }
    }
}
