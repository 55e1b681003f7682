//! The country of a client: a header that only counts if a trusted proxy set it.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Label};
use http::{HeaderName, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::name;

#[tokio::test]
async fn only_the_header_of_a_trusted_proxy_is_used() {
    for (peer, forwarded, codes, value) in [
        ("10.0.0.1", "192.0.2.1", &["de"][..], "DE"),
        ("10.0.0.1", "192.0.2.1", &[], "(none)"),
        ("10.0.0.1", "192.0.2.1", &["XX"], "(none)"),
        ("10.0.0.1", "192.0.2.1", &["Germany"], "(other)"),
        // The client sent the first line, and the proxy added another.
        ("10.0.0.1", "192.0.2.1", &["fr", "de"], "DE"),
        // The client bypassed the proxy.
        ("198.51.100.1", "192.0.2.1", &["de"], "(none)"),
    ] {
        let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR)
            .trusted_networks(["10.0.0.0/8".parse().expect("a network")]);
        let header = HeaderName::from_static("cf-ipcountry");
        let layer = AccessCounterLayer::new(counters.recorder());
        let layer = layer.labels([Label::country(header.clone(), client)]).expect("a label");
        let peer: IpAddr = peer.parse().expect("an address");
        let mut request = Request::get("/").header("x-forwarded-for", forwarded);
        for code in codes {
            request = request.header(&header, *code);
        }
        let request = request.extension(SocketAddr::new(peer, 1000)).body(()).expect("a request");
        let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
        service.oneshot(request).await.expect("infallible");
        counters.flush().await.expect("memory takes all");
        let counted = counters.stats().lifetimes(&[name(&format!("label:country:{value}"))]).await;
        assert_eq!(counted.expect("memory can be read"), [1], "{peer} {codes:?}");
    }
}
