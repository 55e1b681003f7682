use http::HeaderMap;

use super::observed::{ObservedBody, Observer};
use crate::layer::OpenBody;

/// The response body of [`MeasureBodies`](crate::body::MeasureBodies).
pub type MeasuredBody<B> = ObservedBody<B, OpenBody>;

impl Observer for OpenBody {
    fn data(&mut self, bytes: usize) {
        self.add(bytes as u64);
    }

    fn end(self, trailers: Option<&HeaderMap>) {
        self.end(trailers);
    }

    fn fail(self) {
        self.discard();
    }
}
