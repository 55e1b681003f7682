use std::time::Duration;

use counter_core::visits::Bin;
use http::{HeaderMap, Response};

use super::{Bins, Measures, Measuring, grpc_status};

impl Measures {
    /// Returns `true` if the response head has a gRPC status to be measured.
    pub(crate) fn has_grpc(&self, head: &HeaderMap) -> bool {
        self.grpc && grpc_status(head).is_some()
    }

    /// Returns whether this response has a body, or `None` if the end of the body is not measured, i.e. for
    /// streams, upgrades and tunnels.
    pub(crate) fn watches_body<B>(&self, measuring: Measuring, response: &Response<B>) -> Option<bool> {
        let (status, headers) = (response.status(), response.headers());
        let watches = self.bodies && !measuring.is_open_ended(status, headers);
        watches.then(|| !measuring.has_no_body(status))
    }

    /// Returns the bins of a response when its body ends.
    pub(crate) fn body_ended(&self, measuring: Measuring, bytes: u64, trailers: Option<&HeaderMap>) -> Bins {
        let mut bins = Bins::none();
        if self.body {
            bins.push(Bin::body(Duration::from_nanos(self.elapsed_nanos(measuring))));
        }
        if self.size {
            bins.push(Bin::size(bytes));
        }
        if let Some(trailers) = trailers {
            self.measure_grpc(trailers, &mut bins);
        }
        bins
    }
}
