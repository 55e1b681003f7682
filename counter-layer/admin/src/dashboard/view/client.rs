use std::convert::Infallible;

use axum::extract::FromRequestParts;
use counter_layer::Ignore;
use http::request::Parts;

use crate::access::cookie;
use crate::access::entry::{MayNote, MaySilence, RevocationsUnknown};
use crate::access::signed::session::LoggedIn;

/// The client that requests a page, based on the request extensions set by the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// True if the client has a session to end.
    pub(crate) is_logged_in: bool,
    pub(crate) may_note: bool,
    pub(crate) may_silence: bool,
    /// True if the browser sends the cookie to be ignored.
    pub(crate) is_ignored: bool,
    /// True if revocations of other instances can't be read.
    pub(crate) misses_revocations: bool,
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let extensions = &parts.extensions;
        Ok(Self {
            is_logged_in: extensions.get::<LoggedIn>().is_some(),
            may_note: extensions.get::<MayNote>().is_some(),
            may_silence: extensions.get::<MaySilence>().is_some(),
            is_ignored: cookie::named(&parts.headers, Ignore::COOKIE).any(|value| !value.is_empty()),
            misses_revocations: extensions.get::<RevocationsUnknown>().is_some(),
        })
    }
}
