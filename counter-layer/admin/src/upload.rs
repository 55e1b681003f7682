//! Limits for request bodies: duration, size, and the number of concurrent reads.
//!
//! Anyone can send a login with a body that never ends. We therefore always read new logins, and abort the
//! oldest incomplete login if there are too many. All other bodies are from clients with access.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, abortable};
use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::problem::Problem;

/// The login bodies being read.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<VecDeque<AbortHandle>>);

/// Limits concurrent uploads by clients with access. The guard adds this to the request extensions.
#[derive(Clone, Debug)]
pub(crate) struct Uploads(Arc<Semaphore>);

/// The request body of a client with access.
#[derive(Debug)]
pub(crate) struct Upload {
    body: Body,
    uploads: Uploads,
}

/// Maximum size of a form.
pub(crate) const MAX_FORM_BYTES: usize = 16_384;

/// Maximum number of login bodies to read at the same time. An incomplete login is aborted after this number
/// of newer logins.
const MAX_LOGINS: usize = 64;
/// Maximum number of bodies of clients with access to read at the same time.
const MAX_UPLOADS: usize = 64;

const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(30);

impl Logins {
    /// Reads the login form.
    pub(crate) async fn read(&self, body: Body) -> Result<Vec<u8>, Problem> {
        let (read, handle) = abortable(read(body, MAX_FORM_BYTES, LOGIN_TIMEOUT));
        {
            let mut handles = self.0.lock().expect("the lock is never poisoned");
            handles.push_back(handle);
            if handles.len() > MAX_LOGINS
                && let Some(oldest) = handles.pop_front()
            {
                oldest.abort();
            }
        }
        read.await.unwrap_or_else(|_aborted| Err(Problem::too_many_bodies()))
    }
}

impl Uploads {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_UPLOADS)))
    }
}

impl Upload {
    pub(crate) fn new(parts: &Parts, body: Body) -> Self {
        let uploads = parts.extensions.get::<Uploads>().cloned();
        Self { body, uploads: uploads.unwrap_or_else(Uploads::new) }
    }

    /// Reads the whole body, up to `max` bytes.
    pub(crate) async fn read(self, max: usize) -> Result<Vec<u8>, Problem> {
        let Ok(_permit) = self.uploads.0.try_acquire() else { return Err(Problem::too_many_bodies()) };
        read(self.body, max, UPLOAD_TIMEOUT).await
    }
}

impl<S: Sync> FromRequest<S> for Upload {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(Self::new(&parts, body))
    }
}

async fn read(body: Body, max: usize, limit: Duration) -> Result<Vec<u8>, Problem> {
    timeout(limit, collect(body, max)).await.unwrap_or_else(|_late| Err(Problem::slow_body(limit)))
}

async fn collect(body: Body, max: usize) -> Result<Vec<u8>, Problem> {
    let (mut all, mut chunks) = (Vec::new(), body.into_data_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::unread_body())?;
        if all.len() + chunk.len() > max {
            return Err(Problem::too_large(format!("the body has more than {max} bytes")));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}
