use std::fmt;
use std::sync::Arc;

use counter_core::document::DocumentStore;
use counter_core::internal::Errands;
use futures_util::future::BoxFuture;
use http::request::Parts;
use subtle::ConstantTimeEq;

use super::right::Rights;
use super::signed::secrets::Secrets;
use super::throttle::Credentials;
use counter_layer::internal::Closure;

/// A kind of credentials, with the rights that it grants.
#[derive(Clone)]
pub(crate) struct AuthMethod {
    rule: Rule,
    pub(crate) rights: Rights,
}

#[derive(Clone)]
enum Rule {
    Open,
    Bearer(Arc<Secrets>),
    /// The expected part of the `Authorization` header after the scheme: name and password in base64.
    Basic(Arc<str>),
    FromFn(Arc<Closure<AllowedFn>>),
}

type AllowedFn = dyn Fn(&Parts) -> BoxFuture<'static, bool> + Send + Sync;

impl AuthMethod {
    pub(crate) fn open() -> Self {
        Self::of(Rule::Open)
    }

    pub(crate) fn bearer(token: String) -> Self {
        Self::of(Rule::Bearer(Arc::new(Secrets::new(token))))
    }

    pub(crate) fn basic(user: &str, password: &str) -> Self {
        Self::of(Rule::Basic(base64(format!("{user}:{password}").as_bytes()).into()))
    }

    pub(crate) fn from_fn(
        allowed: impl Fn(&Parts) -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) -> Self {
        Self::of(Rule::FromFn(Arc::new(Closure::new("access", allowed))))
    }

    fn of(rule: Rule) -> Self {
        Self { rule, rights: Rights::default() }
    }

    /// Stores revocations in `documents`, so that all instances share them. If this fails, `errands` does it later.
    pub(crate) fn store_in(&mut self, documents: &Arc<dyn DocumentStore>, errands: &Errands) {
        if let Rule::Bearer(secrets) = &mut self.rule {
            *secrets = Arc::new(secrets.stored_in(Arc::clone(documents), errands.clone()));
        }
    }

    pub(crate) const fn secrets(&self) -> Option<&Arc<Secrets>> {
        match &self.rule {
            Rule::Bearer(secrets) => Some(secrets),
            Rule::Open | Rule::Basic(_) | Rule::FromFn(_) => None,
        }
    }

    /// Returns `true` if the credentials are valid.
    pub(crate) fn accepts(&self, credentials: Credentials<'_>) -> bool {
        match (&self.rule, credentials) {
            (Rule::Bearer(secrets), Credentials::Token(token)) => secrets.is(token),
            // Compares in constant time. Only the length can leak.
            (Rule::Basic(expected), Credentials::Basic(credentials)) => {
                credentials.as_bytes().ct_eq(expected.as_bytes()).into()
            }
            _ => false,
        }
    }

    /// Returns `true` if this method admits the request without credentials: open access, or a closure that
    /// returns `true`.
    pub(crate) async fn is_open(&self, parts: &Parts) -> bool {
        match &self.rule {
            Rule::Open => true,
            Rule::FromFn(allowed) => allowed.call_async(|allowed| allowed(parts)).await.unwrap_or(false),
            Rule::Bearer(_) | Rule::Basic(_) => false,
        }
    }

    /// Returns the challenge header and a description, if a client could guess a secret.
    pub(crate) const fn challenge(&self) -> Option<(&'static str, &'static str)> {
        match &self.rule {
            Rule::Bearer(_) => Some(("Bearer", "the admin token: `Authorization: Bearer <token>`")),
            Rule::Basic(_) => {
                Some(("Basic realm=\"statistics\", charset=\"UTF-8\"", "a name and a password"))
            }
            Rule::Open | Rule::FromFn(_) => None,
        }
    }
}

/// Encodes base64 (RFC 4648, section 4). The encoding is unique, so we don't need to decode the header.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let sextet = (bits >> (18 - 6 * index)) & 63;
            text.push(if index <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

impl fmt::Debug for AuthMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.rule {
            Rule::Open => "Access::open()",
            Rule::Bearer(_) => "Access::bearer(..)",
            Rule::Basic(_) => "Access::basic(..)",
            Rule::FromFn(_) => "Access::from_fn(..)",
        })?;
        f.write_str(if self.rights.forget { ".may_forget()" } else { "" })?;
        f.write_str(if self.rights.record { ".may_record()" } else { "" })?;
        f.write_str(if self.rights.repair { ".may_repair()" } else { "" })?;
        f.write_str(if self.rights.silence { ".may_silence()" } else { "" })?;
        f.write_str(if self.rights.note { ".may_note()" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_rfc_examples() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("\u{ff}>?~", "w78+P34="),
        ];
        for (text, expected) in table {
            assert_eq!(base64(text.as_bytes()), expected, "{text}");
        }
    }
}
