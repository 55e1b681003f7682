//! gRPC services on tonic, which are counted by method and gRPC status.
//!
//! ```sh
//! cd counter-layer/examples/frameworks
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --bin tonic
//! grpcurl -plaintext 127.0.0.1:3000 grpc.health.v1.Health/Check
//! redis-cli HGETALL access:total
//! ```
//!
//! A second later, the last command prints 1 for `hits`, `/grpc.health.v1.Health/Check` and `grpc:ok`, and 1 for
//! the reflection service, which `grpcurl` uses.

use std::env::var;
use std::error::Error;

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::AccessCounterLayer;
use counter_layer::grpc::GrpcStatusLayer;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("articles", ServingStatus::NotServing).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let server = Server::builder()
        .layer(AccessCounterLayer::new(counters.recorder()))
        .layer(GrpcStatusLayer::new(counters.recorder()))
        .add_service(health)
        .add_service(reflection);

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = async { _ = ctrl_c().await };
    server.serve_with_incoming_shutdown(TcpIncoming::from(listener), shutdown).await?;
    Ok(upkeep.stop().await?)
}
