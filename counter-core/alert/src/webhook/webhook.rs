use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use counter_core::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use rustls::crypto::CryptoProvider;
use tokio::time::timeout;

use super::body::WebhookBody;
use super::secret::Secret;
use crate::message::Message;
use crate::watch::delivery::{Deliver, DeliveryError};

/// Delivers messages via HTTP `POST`.
///
/// A message is considered delivered if the response is a 2xx. Redirects will not be followed, because a
/// message may be confidential. Since the URL can contain a secret (e.g. for chat services), the log and
/// `Debug` only show the host. Connections are never reused: a connection is a task of the runtime until the
/// response arrives.
///
/// ```
/// use counter_alert::webhook::{Webhook, WebhookError};
///
/// let webhook = Webhook::new("http://127.0.0.1:8080/hooks/visits")?
///     .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?
///     .header("x-team", "web")?;
/// # let _: Webhook = webhook;
/// assert!(matches!(Webhook::new("/hooks/visits"), Err(WebhookError::Address)));
/// # Ok::<(), WebhookError>(())
/// ```
#[derive(Clone)]
pub struct Webhook {
    address: Uri,
    secret: Option<Secret>,
    body: WebhookBody,
    headers: HeaderMap,
    timeout: Duration,
    client: HttpClient,
}

#[derive(Clone)]
enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// The error for invalid webhook settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebhookError {
    /// The URL of the receiver is not an absolute `http` or `https` URL.
    Address,
    /// The secret is not `whsec_` followed by 24 to 64 bytes in Base64.
    Secret,
    /// The header name or value is invalid.
    Header,
    /// The system certificates can't be read, but are needed for `https`.
    Certificates(std::io::Error),
    /// There is no TLS provider, but `https` needs one: neither is one installed for the process, nor is the
    /// feature `webhook` or `webhook-aws-lc-rs` enabled.
    Provider,
}

/// The error of a failed webhook request.
#[derive(Debug)]
enum Failure {
    Status(StatusCode),
    TimedOut(Duration),
    Unreachable(Box<dyn std::error::Error + Send + Sync>),
}

impl Webhook {
    /// Creates a webhook that sends JSON to this URL. For `https`, this trusts the system certificates. If
    /// the URL contains a name and a password, like `https://name:password@host/`, they will be sent in the
    /// `authorization` header (RFC 7617). You need to percent-encode special characters.
    ///
    /// # Errors
    /// Fails if `address` is not an absolute `http` or `https` URL. For `https`, also fails if the system does
    /// not have certificates, or if there is no TLS provider.
    pub fn new(address: &str) -> Result<Self, WebhookError> {
        let address: Uri = address.parse().map_err(|_| WebhookError::Address)?;
        let (address, credentials) = split_credentials(address).ok_or(WebhookError::Address)?;
        let is_tls = match (address.scheme_str(), address.host()) {
            (Some("https"), Some(_)) => true,
            (Some("http"), Some(_)) => false,
            _ => return Err(WebhookError::Address),
        };
        Ok(Self {
            address,
            secret: None,
            body: WebhookBody::default(),
            headers: credentials
                .map(|credentials| (header::AUTHORIZATION, credentials))
                .into_iter()
                .collect(),
            timeout: Duration::from_secs(10),
            client: match is_tls {
                true => {
                    let provider = provider(CryptoProvider::get_default()).ok_or(WebhookError::Provider)?;
                    HttpClient::tls(provider)?
                }
                false => HttpClient::plain(),
            },
        })
    }

    /// Signs messages with this secret: see the [module](super#signatures).
    ///
    /// # Errors
    /// Fails if this is not `whsec_` followed by 24 to 64 bytes in Base64. To create a secret, you can append
    /// the output of `openssl rand -base64 32` to `whsec_`.
    pub fn secret(mut self, secret: &str) -> Result<Self, WebhookError> {
        self.secret = Some(Secret::parse(secret).ok_or(WebhookError::Secret)?);
        Ok(self)
    }

    /// Sets the body format. Default: [`WebhookBody::Json`].
    #[must_use]
    pub fn body(mut self, body: WebhookBody) -> Self {
        self.body = body;
        self
    }

    /// Adds a header. An `authorization` header will replace the credentials in the URL.
    ///
    /// # Errors
    /// Fails if the name or the value is not valid in a header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, WebhookError> {
        let name: HeaderName = name.parse().map_err(|_| WebhookError::Header)?;
        let mut value: HeaderValue = value.parse().map_err(|_| WebhookError::Header)?;
        value.set_sensitive(true);
        if name == header::AUTHORIZATION {
            self.headers.insert(name, value);
        } else {
            self.headers.append(name, value);
        }
        Ok(self)
    }

    /// Sets the response timeout, at least a second. A watch will always give up at 30 s. Default: 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_secs(1));
        self
    }

    fn request(&self, message: &Message) -> Request<Full<Bytes>> {
        let (content_type, body) = self.body.write(message);
        let timestamp = Timestamp::now().as_unix();
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let mut add = |name: &'static str, value: String| {
            // A rule name may contain characters that are not allowed in a header. We sign the id as sent.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        let id = id(message.id());
        if let Some(secret) = &self.secret {
            add("webhook-signature", secret.sign(&id, timestamp, &body));
        }
        add("webhook-id", id);
        add("webhook-timestamp", timestamp.to_string());
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.address.clone();
        *request.headers_mut() = headers;
        request
    }

    async fn send(&self, message: &Message) -> Result<(), Failure> {
        let status = timeout(self.timeout, self.client.send(self.request(message))).await;
        let status = status.map_err(|_| Failure::TimedOut(self.timeout))?;
        let status = status.map_err(|error| Failure::Unreachable(error.into()))?;
        if status.is_success() { Ok(()) } else { Err(Failure::Status(status)) }
    }
}

impl Deliver for Webhook {
    fn deliver<'a>(
        &'a self,
        message: &'a Message,
    ) -> Pin<Box<dyn Future<Output = Result<(), DeliveryError>> + Send + 'a>> {
        Box::pin(async move { Ok(self.send(message).await?) })
    }
}

/// Splits the credentials from a URL, and returns them as a header value.
fn split_credentials(address: Uri) -> Option<(Uri, Option<HeaderValue>)> {
    let mut parts = address.into_parts();
    let authority = parts.authority.take()?;
    let Some((credentials, host)) = authority.as_str().rsplit_once('@') else {
        parts.authority = Some(authority);
        return Some((Uri::from_parts(parts).ok()?, None));
    };
    let (name, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let mut decoded: Vec<u8> = percent_decode_str(name).collect();
    decoded.push(b':');
    decoded.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(decoded))).ok()?;
    value.set_sensitive(true);
    parts.authority = Some(host.parse().ok()?);
    Some((Uri::from_parts(parts).ok()?, Some(value)))
}

/// Returns a message id for a header, where only ASCII characters are allowed.
fn id(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { '_' }).collect()
}

impl HttpClient {
    fn plain() -> Self {
        Self::Plain(client().build_http())
    }

    fn tls(provider: Arc<CryptoProvider>) -> Result<Self, WebhookError> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(WebhookError::Certificates)?
            .https_only()
            .enable_http1()
            .build();
        Ok(Self::Tls(client().build(connector)))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<StatusCode, legacy::Error> {
        let response = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        Ok(response?.status())
    }
}

fn client() -> legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    // A connection is a task of the runtime, so we should not keep idle connections.
    builder.pool_max_idle_per_host(0);
    builder
}

/// Returns the provider that the application has installed for the process, or else the one of our feature.
/// rustls can't choose by itself if more than one is compiled.
fn provider(installed: Option<&Arc<CryptoProvider>>) -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "webhook-aws-lc-rs")]
    let compiled = Some(rustls::crypto::aws_lc_rs::default_provider);
    #[cfg(all(feature = "webhook", not(feature = "webhook-aws-lc-rs")))]
    let compiled = Some(rustls::crypto::ring::default_provider);
    #[cfg(not(any(feature = "webhook", feature = "webhook-aws-lc-rs")))]
    let compiled = None::<fn() -> CryptoProvider>;
    installed.cloned().or_else(|| compiled.map(|provider| provider().into()))
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("host", &self.address.host()).finish_non_exhaustive()
    }
}

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "not an absolute http or https URL",
            Self::Secret => "the secret must be `whsec_` followed by 24 to 64 bytes in Base64",
            Self::Header => "invalid header name or value",
            Self::Certificates(_) => "failed to read the system certificates",
            Self::Provider => {
                "no TLS provider: call `CryptoProvider::install_default` first, or enable the feature `webhook` or \
                 `webhook-aws-lc-rs` of counter-alert"
            }
        })
    }
}

impl std::error::Error for WebhookError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Certificates(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the receiver responded with {status}"),
            Self::TimedOut(limit) => write!(f, "the receiver did not respond within {limit:?}"),
            Self::Unreachable(error) => {
                f.write_str("failed to reach the receiver")?;
                let mut source = error.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use rustls::crypto::CryptoProvider;

    use super::provider;

    #[test]
    fn an_installed_provider_is_preferred() {
        let Some(compiled) = provider(None) else { return };
        let installed = CryptoProvider { cipher_suites: Vec::new(), ..(*compiled).clone() };
        assert!(provider(Some(&installed.into())).is_some_and(|provider| provider.cipher_suites.is_empty()));
        assert!(!compiled.cipher_suites.is_empty());
    }
}
