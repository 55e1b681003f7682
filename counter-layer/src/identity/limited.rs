use counter_core::Secret;
use counter_core::visitor::Salt;

use super::identity::{Identity, IdentityError, Source, Visitors};

/// Number of bits of an IPv6 address to use for a limit.
const IPV6_PREFIX: u8 = 56;

impl Identity {
    pub(crate) const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Binds the identity to a secret, to be used for a limit. Addresses count without the user agent,
    /// because it is chosen by the client.
    pub(crate) fn limited_by(self, secret: &Secret) -> Result<Visitors, IdentityError> {
        self.source.check()?;
        let salt = Salt::from(self.key.unwrap_or_else(|| secret.key("limit")));
        let source = match self.source {
            Source::Disabled => return Ok(Visitors(None)),
            Source::Address(address) => {
                let address =
                    if address.has_custom_prefix { address } else { address.ipv6_prefix(IPV6_PREFIX) };
                Source::Address(address.without_user_agent())
            }
            Source::Issued(cookie) => Source::Issued(cookie.signed(secret)),
            source => source,
        };
        Ok(Visitors(Some((source, salt))))
    }
}
