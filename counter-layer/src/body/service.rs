use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::future::MeasureBodiesFuture;
use super::measured::MeasuredBody;
use crate::layer::AccessCounter;

/// The service of [`MeasureBodiesLayer`](crate::body::MeasureBodiesLayer).
#[derive(Clone, Debug)]
pub struct MeasureBodies<S>(AccessCounter<S>);

impl<S> MeasureBodies<S> {
    pub(crate) const fn new(inner: AccessCounter<S>) -> Self {
        Self(inner)
    }
}

impl<S, B, R> Service<Request<B>> for MeasureBodies<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Response = Response<MeasuredBody<R>>;
    type Error = S::Error;
    type Future = MeasureBodiesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        MeasureBodiesFuture::new(self.0.call(request))
    }
}
