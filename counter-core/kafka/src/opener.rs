use std::error::Error;
use std::time::Duration;

use counter_core::source::{Source, Sources};
use tokio::time::{Instant, sleep};

use super::builder::{Builder, Start};
use super::error::RunError;
use crate::builder::{source_name, start_marker_name};
use crate::client::Client;

/// Opens partitions as sources, and starts the topic at the end if configured.
#[derive(Debug)]
pub(crate) struct Opener {
    sources: Sources,
    topic: String,
    /// Cluster name, if known.
    cluster: Option<String>,
    /// True if the start positions don't need to be set, because the topic starts at the first records or has
    /// been started.
    is_started: bool,
}

/// Timeout when waiting for the cluster id.
const CLUSTER_ID_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval for checking if the cluster id is known.
const CLUSTER_ID_INTERVAL: Duration = Duration::from_millis(100);

impl Opener {
    pub(crate) fn new(settings: &Builder, sources: Sources) -> Self {
        let (topic, cluster) = (settings.topic.clone(), settings.cluster.clone());
        Self { sources, topic, cluster, is_started: settings.start == Start::Earliest }
    }

    /// Waits until librdkafka knows the cluster id, unless there is a configured name.
    pub(crate) async fn resolve_cluster(&mut self, client: &Client) -> Result<(), RunError> {
        let limit = Instant::now() + CLUSTER_ID_TIMEOUT;
        while self.cluster.is_none() {
            self.cluster = client.cluster_id();
            if self.cluster.is_none() {
                if Instant::now() > limit {
                    return Err(RunError::NoClusterId);
                }
                sleep(CLUSTER_ID_INTERVAL).await;
            }
        }
        // Ids of other brokers may be longer than those of Kafka.
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let named = source_name(cluster, &self.topic, i32::MAX);
        named.map(drop).map_err(|error| RunError::Client(error.to_string()))
    }

    /// Opens a partition at the position in the store.
    pub(crate) async fn open(
        &mut self,
        client: &Client,
        number: i32,
    ) -> Result<Source, Box<dyn Error + Send + Sync>> {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        if !self.is_started {
            self.start_at_ends(client, cluster).await?;
            self.is_started = true;
        }
        Ok(self.sources.open(source_name(cluster, &self.topic, number)?).await?)
    }

    /// Moves all partitions of the topic to the end, unless this has already been done by a consumer.
    ///
    /// We store the positions before any record is read, so that records arriving during an outage will be
    /// counted. This must be done per topic instead of per partition: an empty or new partition is also at
    /// position 0, but must be read from there.
    async fn start_at_ends(
        &self,
        client: &Client,
        cluster: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut started = self.sources.open(start_marker_name(cluster, &self.topic)?).await?;
        if started.position() > 0 {
            return Ok(());
        }
        for number in client.partitions()? {
            let mut source = self.sources.open(source_name(cluster, &self.topic, number)?).await?;
            if source.position() == 0 {
                let (_, end) = client.ends_of(number)?;
                source.advance_to(end);
                // If another member has been faster, we can use its position as well.
                _ = source.close().await?;
            }
        }
        started.advance_to(1);
        _ = started.close().await?;
        Ok(())
    }
}
