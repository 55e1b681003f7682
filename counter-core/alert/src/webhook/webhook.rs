use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use counter_core::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::body::WebhookBody;
use super::secret::Secret;
use crate::message::Message;
use crate::watch::delivery::{Deliver, DeliveryError};

/// A delivery of messages by a `POST` to an address.
///
/// A message has arrived when the answer is a 2xx. Redirects are not followed, because a message may be confidential. The
/// address may be a secret of a chat service, so neither the log nor `Debug` shows more of it than the host. Each message uses
/// a new connection, which is a task of the runtime until the response arrives.
#[derive(Clone)]
pub struct Webhook {
    address: Uri,
    secret: Option<Secret>,
    body: WebhookBody,
    headers: HeaderMap,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// A reason why a webhook cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address is not an absolute one of `http` or `https`.
    Address,
    /// The secret is not `whsec_` and 24 to 64 bytes in Base64.
    Secret,
    /// The name or the value of a header is not one.
    Header,
    /// The certificates of the system cannot be read, and the address is one of `https`.
    Certificates(std::io::Error),
}

/// A reason why a message has not arrived.
#[derive(Debug)]
enum Failure {
    Status(http::StatusCode),
    Late(Duration),
    Unreachable(Box<dyn std::error::Error + Send + Sync>),
}

impl Webhook {
    /// Creates a webhook that sends JSON to this address, over TLS where it begins with `https`, with the certificates that
    /// the system trusts. A name and a password in the address, as in `https://name:password@host/`, are sent in the header
    /// `authorization` (RFC 7617); percent-encode what an address cannot have.
    ///
    /// # Errors
    /// Fails when it is not such an address, or the system has no certificates.
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
            // A connection is a task of the runtime, and none stays when its message has arrived.
            client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector(is_tls)?),
        })
    }

    /// Signs messages with this secret: see the [module](super#signatures).
    ///
    /// # Errors
    /// Fails when it is not `whsec_` and 24 to 64 bytes in Base64, such as `whsec_` and what `openssl rand -base64 32` prints.
    pub fn secret(mut self, secret: &str) -> Result<Self, WebhookError> {
        self.secret = Some(Secret::parse(secret).ok_or(WebhookError::Secret)?);
        Ok(self)
    }

    /// Sends messages in this form. Default: [`WebhookBody::Json`].
    #[must_use]
    pub fn body(mut self, body: WebhookBody) -> Self {
        self.body = body;
        self
    }

    /// Sends this header as well, such as `authorization`, which replaces the credentials of the address.
    ///
    /// # Errors
    /// Fails when the name or the value is not that of a header.
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

    /// Waits so long for an answer, a second at least; a watch waits 30 s at most. Default: 10 s.
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
            // A name of a rule may have letters that a header cannot have; the signature is over what is sent.
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
        let answer = timeout(self.timeout, self.client.request(self.request(message))).await;
        let answer = answer.map_err(|_| Failure::Late(self.timeout))?;
        let status = answer.map_err(|error| Failure::Unreachable(error.into()))?.status();
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

/// Takes the name and the password out of an address, as the value of a header.
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

/// Returns the id of a message for a header, which can have only ASCII letters.
fn id(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { '_' }).collect()
}

fn connector(is_tls: bool) -> Result<HttpsConnector<HttpConnector>, WebhookError> {
    // Not the provider of the process, which is global.
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new();
    let builder = match is_tls {
        true => builder.with_provider_and_native_roots(provider).map_err(WebhookError::Certificates)?,
        false => {
            let config = ClientConfig::builder_with_provider(provider.into());
            let config = config.with_safe_default_protocol_versions().expect("those of the provider");
            let config = config.with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(config.with_no_client_auth())
        }
    };
    let builder = if is_tls { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().build())
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("host", &self.address.host()).finish_non_exhaustive()
    }
}

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "not an absolute address of http or https",
            Self::Secret => "not `whsec_` and 24 to 64 bytes in Base64",
            Self::Header => "not the name and the value of a header",
            Self::Certificates(_) => "the certificates of the system cannot be read",
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
            Self::Status(status) => write!(f, "the receiver answered {status}"),
            Self::Late(limit) => write!(f, "the receiver did not answer within {limit:?}"),
            Self::Unreachable(error) => {
                f.write_str("the receiver cannot be reached")?;
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
