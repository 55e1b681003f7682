//! Forms that pages submit.

use axum::extract::{FromRequest, Request};

use super::page::{TO, below};
use crate::problem::Problem;
use crate::upload::{MAX_FORM_BYTES, Upload};

/// The fields of a form.
#[derive(Debug)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// Returns the first value of a field. Empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Returns the page to return to, relative to the router. Empty if there is none, or if it is elsewhere.
    pub(crate) fn to(&self) -> &str {
        below(self.field(TO)).unwrap_or_default()
    }
}

/// Reads the form of a client with access.
impl<S: Sync> FromRequest<S> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Ok(upload) = Upload::from_request(request, state).await;
        Ok(Self::parse(&upload.read(MAX_FORM_BYTES).await?))
    }
}
