//! Two standard gRPC services on tonic, health and reflection. Calls are counted by method and status.

use counter_layer::Identity;
use counter_layer::grpc::GrpcStatusLayer;
use strangers::{BoxError, Counting, listen, terminated};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("pastes", ServingStatus::NotServing).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Server::builder()
        .layer(counting.layer(Identity::peer())?)
        .layer(GrpcStatusLayer::new(counting.recorder()))
        .add_service(health)
        .add_service(reflection)
        .serve_with_incoming_shutdown(TcpIncoming::from(listen().await?), terminated())
        .await?;
    counting.finish().await
}
