use tower_layer::Layer;

use super::service::MeasureBodies;
use crate::layer::AccessCounterLayer;

/// An [`AccessCounterLayer`] that observes response bodies, see [`AccessCounterLayer::measure_bodies`].
#[derive(Clone, Debug)]
pub struct MeasureBodiesLayer(AccessCounterLayer);

impl AccessCounterLayer {
    /// Observes response bodies, to record [distributions](Self::distributions) of values known at the end.
    /// This must be the last setting.
    ///
    /// | measure | value |
    /// |---|---|
    /// | `Body` | time from the call of the layer until the server has taken the last byte of the response |
    /// | `Size` | actual size of the body in bytes; 0 for responses to `HEAD`, and for 204 and 304 |
    /// | `Grpc` | status in the response head or in the trailers |
    ///
    /// These values are recorded when the response ends, in the bucket of this instant. If a response does
    /// not end because the client disconnects or the body fails, only the status and the time to the head are
    /// recorded. Event streams, upgrades and tunnels are not measured.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use counter_core::visits::{Distribution, Measure};
    /// # use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    /// use counter_layer::AccessCounterLayer;
    /// # use http_body_util::BodyExt;
    /// # use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    /// # let mut counters = builder.build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).distributions([Measure::Body, Measure::Size]);
    /// let app: Router = Router::new().route("/", get(async || "hello")).layer(layer.measure_bodies());
    /// # let response = app.oneshot(http::Request::get("/").body(axum::body::Body::empty())?).await?;
    /// # response.into_body().collect().await?;
    /// # counters.flush().await?;
    /// # let day = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
    /// # let hour = Precision::HOUR;
    /// let sizes = counters.stats().distribution(&["/".parse()?], hour, day, Measure::Size).await?.merged();
    /// assert!((sizes.quantile(0.5).unwrap() / 5.0 - 1.0).abs() <= Measure::RELATIVE_ERROR);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn measure_bodies(mut self) -> MeasureBodiesLayer {
        if let Some(measures) = &mut self.settings.measures {
            measures.bodies = true;
        }
        MeasureBodiesLayer(self)
    }
}

impl<S> Layer<S> for MeasureBodiesLayer {
    type Service = MeasureBodies<S>;

    fn layer(&self, inner: S) -> MeasureBodies<S> {
        MeasureBodies::new(self.0.layer(inner))
    }
}
