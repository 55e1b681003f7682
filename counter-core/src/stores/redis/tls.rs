//! The TLS of `rediss://` addresses.

use fred::error::Error as FredError;
#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs"))]
use fred::error::ErrorKind as FredKind;
use fred::prelude::TlsConnector;
#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs"))]
use fred::rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};

/// Returns a connector that trusts the certificates of the system. If both libraries are compiled, it uses
/// rustls.
#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs"))]
pub(super) fn connector() -> Result<TlsConnector, FredError> {
    let found = fred::rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(FredError::new(
            FredKind::Tls,
            format!("no certificate authority found on this system{reason}"),
        ));
    }
    Ok(ClientConfig::builder_with_provider(provider(CryptoProvider::get_default()).into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth()
        .into())
}

#[cfg(not(any(feature = "rustls", feature = "rustls-aws-lc-rs")))]
pub(super) fn connector() -> Result<TlsConnector, FredError> {
    TlsConnector::default_native_tls()
}

/// Returns the provider that the application has installed for the process, or else the one of our feature.
///
/// rustls can't choose by itself, and panics, if the application also compiles another one.
#[cfg(any(feature = "rustls", feature = "rustls-aws-lc-rs"))]
fn provider(installed: Option<&std::sync::Arc<CryptoProvider>>) -> CryptoProvider {
    #[cfg(feature = "rustls-aws-lc-rs")]
    use fred::rustls::crypto::aws_lc_rs::default_provider;
    #[cfg(not(feature = "rustls-aws-lc-rs"))]
    use fred::rustls::crypto::ring::default_provider;

    installed.map_or_else(default_provider, |installed| (**installed).clone())
}

#[cfg(all(test, feature = "rustls"))]
mod tests {
    use fred::rustls::crypto::{CryptoProvider, ring};

    use super::provider;

    #[test]
    fn an_installed_provider_is_preferred() {
        let installed = CryptoProvider { cipher_suites: Vec::new(), ..ring::default_provider() };
        assert!(provider(Some(&installed.into())).cipher_suites.is_empty());
        assert!(!provider(None).cipher_suites.is_empty());
    }
}
