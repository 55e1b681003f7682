use std::error::Error;
use std::time::Duration;

use counter_core::source::{Source, Sources};
use tokio::time::{Instant, sleep};

use crate::builder::{begun_name, source_name};
use crate::client::Client;
use crate::{Builder, RunError, Start};

/// Opens the partitions of a topic as sources, and begins the topic at its end where it is to be.
#[derive(Debug)]
pub(crate) struct Opener {
    sources: Sources,
    topic: String,
    /// The name of the cluster, once it is known.
    cluster: Option<String>,
    /// True when nothing is to be done any more before partitions are opened.
    is_begun: bool,
}

/// The time that brokers have to tell the id of their cluster, and the time between two questions.
const CLUSTER_ID: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(100);

impl Opener {
    pub(crate) fn new(settings: &Builder, sources: Sources) -> Self {
        let (topic, cluster) = (settings.topic.clone(), settings.cluster.clone());
        Self { sources, topic, cluster, is_begun: settings.start == Start::Earliest }
    }

    /// Waits for the id of the cluster, which librdkafka knows since it joined the group, unless a name is set.
    pub(crate) async fn learn_cluster(&mut self, client: &Client) -> Result<(), RunError> {
        let limit = Instant::now() + CLUSTER_ID;
        while self.cluster.is_none() {
            self.cluster = client.cluster_id();
            if self.cluster.is_none() {
                if Instant::now() > limit {
                    return Err(RunError::NoClusterId);
                }
                sleep(TICK).await;
            }
        }
        // Such an id may be longer than those of Kafka.
        let cluster = self.cluster.as_deref().unwrap_or_default();
        let named = source_name(cluster, &self.topic, i32::MAX);
        named.map(drop).map_err(|error| RunError::Client(error.to_string()))
    }

    /// Opens a partition at the position of the store.
    pub(crate) async fn open(
        &mut self,
        client: &Client,
        number: i32,
    ) -> Result<Source, Box<dyn Error + Send + Sync>> {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        if !self.is_begun {
            self.begin_at_ends(client, cluster).await?;
            self.is_begun = true;
        }
        Ok(self.sources.open(source_name(cluster, &self.topic, number)?).await?)
    }

    /// Moves all partitions of the topic to their ends, whoever reads them, unless that was done before.
    ///
    /// The places are remembered before anything is read: records of an outage belong to the topic. It is once for the
    /// topic and not for each partition, since a partition without records is at its beginning afterwards too, as is one
    /// that is added later, and both are to be read from there.
    async fn begin_at_ends(
        &self,
        client: &Client,
        cluster: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut begun = self.sources.open(begun_name(cluster, &self.topic)?).await?;
        if begun.position() > 0 {
            return Ok(());
        }
        for number in client.partitions()? {
            let mut source = self.sources.open(source_name(cluster, &self.topic, number)?).await?;
            if source.position() == 0 {
                let (_, end) = client.ends_of(number)?;
                source.advance_to(end);
                // Where another member was faster, it is elsewhere, which is as good.
                _ = source.close().await?;
            }
        }
        begun.advance_to(1);
        _ = begun.close().await?;
        Ok(())
    }
}
