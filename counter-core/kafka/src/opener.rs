use std::error::Error;
use std::time::Duration;

use counter_core::source::{Source, Sources};
use tokio::time::{Instant, sleep};

use super::builder::{Builder, Start};
use super::error::RunError;
use crate::builder::{begun_name, source_name};
use crate::client::Client;

/// Opens the partitions of a topic as sources, and starts the topic at its end if that is configured.
#[derive(Debug)]
pub(crate) struct Opener {
    sources: Sources,
    topic: String,
    /// The name of the cluster, after it is known.
    cluster: Option<String>,
    /// True if partitions can be opened without setting their start.
    is_started: bool,
}

/// How long and how often the consumer checks whether the id of the cluster is known.
const CLUSTER_ID_TIMEOUT: Duration = Duration::from_secs(30);
const CLUSTER_ID_INTERVAL: Duration = Duration::from_millis(100);

impl Opener {
    pub(crate) fn new(settings: &Builder, sources: Sources) -> Self {
        let (topic, cluster) = (settings.topic.clone(), settings.cluster.clone());
        Self { sources, topic, cluster, is_started: settings.start == Start::Earliest }
    }

    /// Waits until librdkafka knows the id of the cluster, unless a name is configured.
    pub(crate) async fn learn_cluster(&mut self, client: &Client) -> Result<(), RunError> {
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
        // Other brokers may use longer ids than Kafka.
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let named = source_name(cluster, &self.topic, i32::MAX);
        named.map(drop).map_err(|error| RunError::Client(error.to_string()))
    }

    /// Opens a partition at its position in the store.
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

    /// Moves all partitions of the topic to their ends, unless a consumer did that before.
    ///
    /// The positions are stored before any record is read, so records that arrive during an outage count. This happens once
    /// for the topic and not for each partition: an empty or new partition is at position 0 too, and must be read from
    /// there.
    async fn start_at_ends(
        &self,
        client: &Client,
        cluster: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut started = self.sources.open(begun_name(cluster, &self.topic)?).await?;
        if started.position() > 0 {
            return Ok(());
        }
        for number in client.partitions()? {
            let mut source = self.sources.open(source_name(cluster, &self.topic, number)?).await?;
            if source.position() == 0 {
                let (_, end) = client.ends_of(number)?;
                source.advance_to(end);
                // If another member was faster, its position is as good.
                _ = source.close().await?;
            }
        }
        started.advance_to(1);
        _ = started.close().await?;
        Ok(())
    }
}
