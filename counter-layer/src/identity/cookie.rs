//! The visitor cookie: how to parse it (RFC 6265, section 4.2), and how to set it.

use std::sync::Arc;
use std::time::Duration;

use counter_core::Secret;
use counter_core::visitor::{Salt, VisitorKey};
use http::{HeaderMap, HeaderValue, header};

use super::ExpiringVisitor;
use super::head::RequestHead;

/// An identity by a cookie with a random 128-bit id, set by the layer.
///
/// If the counters have a [secret](counter_core::Builder::secret), the id is signed, and ids not issued by
/// the layer will be rejected. Otherwise clients can make up ids.
///
/// The cookie is `HttpOnly`, `SameSite=Lax`, valid for the whole site, and `Secure` unless you set
/// [`insecure`](Self::insecure). A request that does not send the cookie counts as a new visitor, but you can
/// change this via [`only_returned`](Self::only_returned). Bots only get a cookie with
/// [`bots_are_visitors`](crate::AccessCounterLayer::bots_are_visitors).
///
/// Visits by the same browser can be linked as long as the cookie exists, so you might need user consent.
/// Responses that set the cookie should not be stored in a shared cache.
///
/// ```
/// use std::time::Duration;
///
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Identity};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let month = Duration::from_secs(30 * 86_400);
/// let cookie = Identity::issued_cookie("visitor").max_age(month);
/// let layer = AccessCounterLayer::new(counters.recorder()).identity(cookie)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct IssuedCookie {
    name: Arc<str>,
    max_age: Duration,
    secure: bool,
    only_returned: bool,
    signature: Option<VisitorKey>,
}

/// The visitor of a request, and the cookie to be set in the response.
#[derive(Default)]
pub(super) struct Visit {
    pub(super) visitor: Option<ExpiringVisitor>,
    pub(super) cookie: Option<HeaderValue>,
}

impl IssuedCookie {
    pub(super) fn new(name: &str) -> Self {
        let max_age = Duration::from_secs(365 * 86_400);
        Self { name: name.into(), max_age, secure: true, only_returned: false, signature: None }
    }

    /// Sets how long browsers should keep the cookie, in whole seconds. Default: 365 days.
    pub const fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Allows browsers to send the cookie over plain HTTP.
    pub const fn insecure(mut self) -> Self {
        self.secure = false;
        self
    }

    /// Counts a visitor only after the cookie was sent back.
    ///
    /// With this setting the first request does not have a visitor, so people not returning, and clients not
    /// keeping cookies, will not be counted as visitors. Otherwise such a client is a new visitor with every
    /// request. The first request is `unidentified` in the [ledger](counter_core::visits::Requests).
    ///
    /// ```
    /// use counter_layer::Identity;
    ///
    /// let cookie = Identity::issued_cookie("visitor").only_returned();
    /// # let _: Identity = cookie.into();
    /// ```
    pub const fn only_returned(mut self) -> Self {
        self.only_returned = true;
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn has_valid_name(&self) -> bool {
        is_name(&self.name)
    }

    /// Signs ids with this secret, and rejects ids with other signatures.
    pub(super) fn signed(mut self, secret: &Secret) -> Self {
        self.signature = Some(secret.key("cookie"));
        self
    }

    #[inline(never)]
    pub(super) fn visit(&self, head: &RequestHead<'_>, salt: &Salt) -> Visit {
        if let Some(id) = value(head.headers, &self.name).and_then(|value| self.issued(value)) {
            return Visit { visitor: Some(salt.visitor_until(&[id])), cookie: None };
        }
        let mut random = [0; 16];
        // If we can't get random bytes, we can't create a visitor, but the request must still be served.
        if getrandom::fill(&mut random).is_err() {
            return Visit::default();
        }
        let id = format!("{:032x}", u128::from_le_bytes(random));
        let signature = self.signature(id.as_bytes()).map(|bits| format!(".{bits:032x}")).unwrap_or_default();
        let (name, age) = (&self.name, self.max_age.as_secs());
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!("{name}={id}{signature}; Max-Age={age}; Path=/; HttpOnly; SameSite=Lax{secure}");
        Visit {
            visitor: (!self.only_returned).then(|| salt.visitor_until(&[id.as_bytes()])),
            cookie: HeaderValue::try_from(cookie).ok(),
        }
    }

    /// Returns the id from a value issued by the layer, or `None` if the value is invalid.
    fn issued<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let (id, rest) = value.split_at_checked(DIGITS)?;
        bits(id)?;
        match self.signature(id) {
            None => rest.is_empty().then_some(id),
            // Integers are compared in constant time.
            Some(signature) => (bits(rest.strip_prefix(b".")?)? == signature).then_some(id),
        }
    }

    fn signature(&self, id: &[u8]) -> Option<u128> {
        let signed = self.signature.as_ref()?.visitor(&[self.name.as_bytes(), id]);
        Some(u128::from_be_bytes(*signed.as_bytes()))
    }
}

/// Number of hex digits of an id, and of the signature.
const DIGITS: usize = 32;

fn bits(digits: &[u8]) -> Option<u128> {
    let are_digits =
        digits.len() == DIGITS && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let digits = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u128::from_str_radix(digits, 16).ok()
}

/// Returns `true` for a valid cookie name, i.e. a token (RFC 9110).
pub(super) fn is_name(name: &str) -> bool {
    let signs = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(signs)
}

/// Returns the value of the first cookie with this name, unless it is empty.
pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
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
    fn cookie_names_must_match_completely() {
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
    fn cookie_names_are_tokens() {
        assert!(is_name("__Host-visitor"));
        for name in ["", "a=b", "a;b", "a b", "é"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
