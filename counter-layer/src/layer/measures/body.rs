use std::time::Duration;

use counter_core::visits::Bin;
use http::{HeaderMap, Response};

use super::{Bins, Measures, Measuring, grpc_status};

impl Measures {
    /// Returns whether the head of a response has a gRPC status that is measured.
    pub(crate) fn has_grpc(&self, head: &HeaderMap) -> bool {
        self.grpc && grpc_status(head).is_some()
    }

    /// Returns whether this response has a body, or `None` if the end of its body is not measured: for streams, upgrades
    /// and tunnels it says little.
    pub(crate) fn watches_body<B>(&self, measuring: Measuring, response: &Response<B>) -> Option<bool> {
        let (status, headers) = (response.status(), response.headers());
        let watches = self.bodies && !measuring.is_open_ended(status, headers);
        watches.then(|| !measuring.has_no_body(status))
    }

    /// Returns the bins of a response whose body ends now.
    pub(crate) fn body_ended(&self, measuring: Measuring, bytes: u64, trailers: Option<&HeaderMap>) -> Bins {
        let mut bins = Bins::none();
        if self.body {
            bins.push(Bin::body(Duration::from_nanos(self.took(measuring))));
        }
        if self.size {
            bins.push(Bin::size(bytes));
        }
        if let Some(trailers) = trailers {
            self.look_for_grpc(trailers, &mut bins);
        }
        bins
    }
}
