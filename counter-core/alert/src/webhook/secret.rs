use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key for signing messages, shared by sender and receiver.
#[derive(Clone)]
pub(super) struct Secret(Vec<u8>);

/// The prefix of an encoded secret.
const PREFIX: &str = "whsec_";

impl Secret {
    /// Parses a secret as encoded by Standard Webhooks, i.e. `whsec_` followed by 24 to 64 bytes in Base64.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (24..=64).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Returns the value of the signature header.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected signature is the output of `openssl dgst -sha256 -hmac`.
    #[test]
    fn a_signature_covers_id_timestamp_and_body() {
        let secret = Secret::parse("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz").expect("24 bytes");
        let signature = secret.sign("a:1", 1_700_000_000, b"{}");
        assert_eq!(signature, "v1,aEjxrZlOQLwmVcO+idVnG4umQKqw5IjFPF22G3PtawU=");
        assert_ne!(secret.sign("a:2", 1_700_000_000, b"{}"), signature);
        assert_ne!(secret.sign("a:1", 1_700_000_001, b"{}"), signature);
        assert_ne!(secret.sign("a:1", 1_700_000_000, b"[]"), signature);
    }

    #[test]
    fn short_or_invalid_secrets_are_rejected() {
        for text in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
            "whsec_not base64 at all, is it?",
        ] {
            assert!(Secret::parse(text).is_none(), "{text}");
        }
    }
}
