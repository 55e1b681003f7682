//! The bodies of requests: how long they may take, how large they may be, and how many are read at the same time.
//!
//! A body may never end, and anyone can send one to the login. So the newest logins are read, and an older one that is
//! still incomplete makes way. All other bodies come from clients with access.

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

/// The bodies of logins.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<VecDeque<AbortHandle>>);

/// The bodies of clients with access; the guard leaves it in their requests.
#[derive(Clone, Debug)]
pub(crate) struct Uploads(Arc<Semaphore>);

/// The body of a client with access.
#[derive(Debug)]
pub(crate) struct Upload {
    body: Body,
    uploads: Uploads,
}

/// The largest number of bytes in a form.
pub(crate) const MAX_FORM_BYTES: usize = 16_384;

/// The number of logins whose bodies are read at the same time.
const MAX_LOGINS: usize = 64;
/// The number of other bodies that are read at the same time.
const MAX_UPLOADS: usize = 64;

const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(30);

impl Logins {
    /// Reads the form of a login.
    pub(crate) async fn read(&self, body: Body) -> Result<Vec<u8>, Problem> {
        let (read, handle) = abortable(read(body, MAX_FORM_BYTES, LOGIN_TIMEOUT));
        {
            let mut handles = self.0.lock().expect("nothing panics under this lock");
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

    /// Reads the body to its end, within this number of bytes.
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
