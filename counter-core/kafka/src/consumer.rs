use std::fmt;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::source::Sources;
use counter_core::visits::Hit;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{error, info, warn};

use super::builder::Builder;
use super::error::{BuildError, RunError};
use super::record::{Decision, Record};
use crate::client::Client;
use crate::decider::Decider;
use crate::error::is_out_of_range;
use crate::keys::Keys;
use crate::membership::Change;
use crate::opener::Opener;
use crate::outage::Outage;
use crate::partition::Partition;
use crate::partitions::Partitions;
use crate::rewind::Fetched;

/// A member of a consumer group that counts the records of a topic exactly once.
///
/// See the [crate](crate) for an example and the guarantees.
pub struct KafkaConsumer<F> {
    settings: Builder,
    client: Client,
    sources: Sources,
    opener: Opener,
    decider: Decider<F>,
    /// Assigned partitions that still need to be opened.
    joining: Vec<i32>,
    partitions: Partitions,
    /// Time for which we need to fetch a visitor key in order to continue.
    missing_key: Option<Timestamp>,
    /// True if a broker reported that a position is out of range.
    is_out_of_range: bool,
    /// Number of consecutive checks in which a log ended before the position in the store.
    truncated: u32,
    outage: Outage,
    /// Time of the latest commit.
    committed: Instant,
    /// Number of records read since the latest commit.
    uncommitted: u32,
    /// Time of the latest check of idle partitions.
    checked: Instant,
    /// Time at which positions were most recently published to the group.
    published: Instant,
    joined: bool,
    last_error: Option<RDKafkaErrorCode>,
}

/// The result of reading fetched records into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// No records available.
    Idle,
    /// More records may be available.
    Some,
    /// A batch is full.
    Full,
}

/// Maximum number of records to read until we check timers and the group.
const MAX_POLLED: usize = 1000;

/// Maximum time to wait for a record until we check timers and the group.
const MAX_IDLE: Duration = Duration::from_millis(100);

/// Timeout for the final commits of revoked partitions. The group is blocked during this time.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval for publishing positions to the group, which is the default of other Kafka consumers.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(5);

/// Interval for checking idle partitions. Their records must be read again if they are lost in a failover.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of retries if a log ends before the position in the store. This can be temporary, because a
/// new leader may not know the end yet.
const MAX_TRUNCATED: u32 = 5;

impl KafkaConsumer<()> {
    /// Returns a builder for a consumer of this topic in this group.
    ///
    /// `brokers` are addresses like `kafka-1:9092,kafka-2:9092`.
    #[must_use]
    pub fn builder(brokers: &str, topic: &str, group: &str) -> Builder {
        Builder::new(brokers, topic, group)
    }
}

impl Builder {
    /// Builds a consumer. For each record, the closure pushes the hits and returns a decision with the time
    /// at which the hits should be counted.
    ///
    /// The closure should be fast, and it must always return the same decision for the same record. If it
    /// panics, the record is counted as malformed. This function starts the librdkafka threads, but only
    /// [`KafkaConsumer::run`] joins the group.
    ///
    /// # Errors
    /// Fails if a setting is [reserved](BuildError::Reserved) or unknown to librdkafka, or if the cluster and
    /// topic names are too long.
    pub fn build<F>(self, sources: Sources, decide: F) -> Result<KafkaConsumer<F>, BuildError>
    where
        F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
    {
        KafkaConsumer::new(self, sources, decide)
    }
}

impl<F> KafkaConsumer<F>
where
    F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
{
    fn new(settings: Builder, sources: Sources, decide: F) -> Result<Self, BuildError> {
        let client = Client::new(settings.config()?, &settings.topic)
            .map_err(|error: KafkaError| BuildError::Settings(error.to_string()))?;
        let opener = Opener::new(&settings, sources.clone());
        Ok(Self {
            settings,
            client,
            sources,
            opener,
            decider: Decider::new(decide),
            joining: Vec::new(),
            partitions: Partitions::default(),
            missing_key: None,
            is_out_of_range: false,
            truncated: 0,
            outage: Outage::default(),
            committed: Instant::now(),
            uncommitted: 0,
            checked: Instant::now(),
            published: Instant::now(),
            joined: false,
            last_error: None,
        })
    }

    /// Joins the group and counts until `shutdown` completes or, with [`Builder::until_end`], until all
    /// partitions are read. Then commits all read records and leaves the group.
    ///
    /// Retries while brokers or the store are unavailable.
    ///
    /// # Errors
    /// Fails if a log ends [before the position in the store](RunError::LogReplaced), if librdkafka reports a
    /// [fatal error](RunError::Client), or if the store doesn't accept [the final batches](RunError::Store)
    /// in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, records are neither lost nor duplicated. The drop may block briefly in order
    /// to leave the group.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        self.client.join()?;
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            ended = self.consume() => ended,
        };
        let closed = self.close(self.settings.shutdown_timeout).await;
        ended.and(closed)
    }

    async fn consume(&mut self) -> Result<(), RunError> {
        loop {
            while let Some(change) = self.client.membership().next_change() {
                self.handle_change(change).await?;
            }
            if self.outage.may_try() {
                self.prepare().await?;
            }
            let read = self.read()?;
            if self.outage.may_try() && (read == Read::Full || self.is_commit_due()) {
                self.commit().await?;
            }
            if self.settings.until_end && self.is_done() {
                return Ok(());
            }
            if read == Read::Idle {
                self.wait().await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn handle_change(&mut self, change: Change) -> Result<(), RunError> {
        match change {
            Change::Assigned(partitions) => {
                info!(topic = self.settings.topic, ?partitions, "partitions assigned");
                self.partitions.clear();
                self.joining = partitions;
                self.joined = true;
                if self.joining.is_empty() {
                    self.assign()?;
                }
            }
            Change::Revoked => {
                if let Err(error) = self.close(REVOKE_TIMEOUT).await {
                    warn!(%error, "partitions revoked with uncounted records; these will be read again by the next member");
                }
                if self.outage.is_on() {
                    // A paused partition would still be paused on reassignment.
                    self.client.resume()?;
                }
                self.joined = false;
                self.joining.clear();
                self.partitions.clear();
                self.client.unassign()?;
            }
        }
        Ok(())
    }

    /// Prepares the next read: opens new partitions, fetches a visitor key, and handles out-of-range
    /// positions.
    async fn prepare(&mut self) -> Result<(), RunError> {
        if !self.joining.is_empty() {
            self.open().await?;
        }
        if let Some(at) = self.missing_key {
            match self.sources.visitor_key(at).await {
                Ok((key, epoch)) => {
                    self.decider.keys.insert(epoch.start..epoch.end(), key);
                    self.missing_key = None;
                }
                Err(error) => self.fail(&error)?,
            }
        }
        if self.is_out_of_range {
            self.skip_removed()?;
        }
        Ok(())
    }

    /// Opens the assigned partitions and fetches them from the positions in the store.
    async fn open(&mut self) -> Result<(), RunError> {
        self.opener.resolve_cluster(&self.client).await?;
        while let Some(&number) = self.joining.last() {
            match self.opener.open(&self.client, number).await {
                Ok(source) => self.partitions.insert(number, Partition::new(source)),
                Err(error) => return self.fail(&error),
            }
            self.joining.pop();
        }
        self.outage.end();
        self.assign()
    }

    /// Fetches all partitions from their positions.
    fn assign(&mut self) -> Result<(), RunError> {
        self.client.assign(self.partitions.seek(Instant::now()))?;
        if self.outage.is_on() {
            self.client.pause()?;
        }
        Ok(())
    }

    /// Fetches a partition from its position.
    fn seek(&mut self, number: i32) -> Result<(), RunError> {
        let Some(partition) = self.partitions.get_mut(number) else { return Ok(()) };
        partition.is_at_end = false;
        let position = partition.source.position();
        partition.rewind.seek(position, Instant::now());
        if self.client.seek(number, position).is_err() {
            return self.assign();
        }
        Ok(())
    }

    /// Adds the fetched records to batches.
    fn read(&mut self) -> Result<Read, RunError> {
        let now = Instant::now();
        for _ in 0..MAX_POLLED {
            let message = match self.client.poll() {
                None if self.client.membership().has_changes() => return Ok(Read::Some),
                None => return Ok(Read::Idle),
                Some(Err(error)) => {
                    self.handle_error(&error)?;
                    continue;
                }
                Some(Ok(message)) => message,
            };
            // Record offsets should never be negative.
            let Ok(offset) = u64::try_from(message.offset()) else { continue };
            let number = message.partition();
            let Some(partition) = self.partitions.get_mut(number) else { continue };
            self.last_error = None;
            match partition.rewind.poll(offset, now) {
                Fetched::Now => {}
                Fetched::Before => continue,
                Fetched::Again => {
                    drop(message);
                    self.seek(number)?;
                    return Ok(Read::Some);
                }
            }
            let (decision, hits) = self.decider.decide(&message);
            if let Decision::NeedsKey(at) = decision {
                drop(message);
                self.missing_key = Some(at);
                // The record is either at the position or, across a gap, after the position. This refetches
                // prefetched records, but just once per epoch.
                partition.source.advance_to(offset);
                self.seek(number)?;
                return Ok(Read::Some);
            }
            let is_full = partition.add(offset, decision, hits);
            self.uncommitted += 1;
            if is_full || self.uncommitted >= self.settings.commit_records.get() {
                return Ok(Read::Full);
            }
        }
        Ok(Read::Some)
    }

    fn handle_error(&mut self, error: &KafkaError) -> Result<(), RunError> {
        if is_out_of_range(error) {
            self.is_out_of_range = true;
            return Ok(());
        }
        match error {
            KafkaError::PartitionEOF(number) => {
                if let Some(partition) = self.partitions.get_mut(*number) {
                    partition.is_at_end = true;
                }
                Ok(())
            }
            KafkaError::MessageConsumptionFatal(_) => Err(RunError::Client(error.to_string())),
            _ => {
                let code = error.rdkafka_error_code();
                // librdkafka will repeat an error until it is resolved.
                if self.last_error != code {
                    warn!(topic = self.settings.topic, %error, "broker error");
                    self.last_error = code;
                }
                Ok(())
            }
        }
    }

    /// Skips records removed by retention. This needs to request the ends of all partitions, because the
    /// librdkafka bindings don't report the partition that is out of range.
    ///
    /// The requests briefly block this thread. This should be rare, and the alternative would be either a
    /// thread or `unsafe`.
    fn skip_removed(&mut self) -> Result<(), RunError> {
        for (number, position) in self.partitions.positions().collect::<Vec<_>>() {
            let (beginning, end) = match self.client.ends_of(number) {
                Ok(ends) => ends,
                Err(error) => return self.fail(&error),
            };
            if position > end {
                self.truncated += 1;
                let error = RunError::LogReplaced { partition: number, position, end };
                return if self.truncated > MAX_TRUNCATED { Err(error) } else { self.fail(&error) };
            }
            let Some(partition) = self.partitions.get_mut(number) else { continue };
            if position < beginning && position > 0 {
                let (name, lost) = (partition.source.name(), beginning - position);
                error!(source = %name, lost, "records were removed by retention before they were counted");
                partition.source.lose(position..beginning);
                partition.is_dirty = true;
            }
        }
        (self.is_out_of_range, self.truncated) = (false, 0);
        self.assign()
    }

    fn is_commit_due(&self) -> bool {
        self.outage.is_on()
            || self.committed.elapsed() >= self.settings.commit_interval
            || self.settings.until_end && self.partitions.are_read()
    }

    async fn commit(&mut self) -> Result<(), RunError> {
        let checks = self.checked.elapsed() >= CHECK_INTERVAL;
        let commits = self.partitions.commit(checks).await;
        (self.committed, self.uncommitted) = (Instant::now(), 0);
        if checks && commits.failed.is_none() {
            self.checked = Instant::now();
        }
        self.update_ends();
        if self.published.elapsed() >= PUBLISH_INTERVAL {
            self.publish_positions();
        }
        for (number, read) in commits.moved {
            self.seek_to_store(number, read)?;
        }
        match commits.failed {
            Some(error) => self.fail(&error),
            None => self.recover(),
        }
    }

    fn update_ends(&mut self) {
        self.partitions.set_ends(self.client.membership().take_ends());
    }

    fn publish_positions(&mut self) {
        self.client.publish_positions(self.partitions.counted());
        self.published = Instant::now();
    }

    /// Continues at the position in the store, which is different from our position.
    fn seek_to_store(&mut self, number: i32, read: u64) -> Result<(), RunError> {
        if let Some(partition) = self.partitions.get_mut(number) {
            let source = &partition.source;
            info!(source = %source.name(), read, position = source.position(), "continuing at the position in the store");
            if source.position() < read {
                // If the store returned to an older state, it may have lost an epoch salt as well.
                self.decider.keys = Keys::default();
            }
        }
        self.seek(number)
    }

    /// Pauses reading on a store or broker error. Heartbeats will still be sent.
    fn fail(&mut self, error: &dyn fmt::Display) -> Result<(), RunError> {
        if self.outage.fail() {
            warn!(topic = self.settings.topic, %error, "paused; retrying");
            self.client.pause()?;
        }
        Ok(())
    }

    /// Resumes reading.
    fn recover(&mut self) -> Result<(), RunError> {
        if !self.outage.end() {
            return Ok(());
        }
        info!(topic = self.settings.topic, "resumed");
        self.client.resume()?;
        for (number, _) in self.partitions.positions().collect::<Vec<_>>() {
            self.seek(number)?;
        }
        Ok(())
    }

    /// Returns `true` if all records have been read and counted.
    fn is_done(&self) -> bool {
        let has_all = self.joined && self.joining.is_empty();
        has_all && self.partitions.are_read() && self.partitions.are_counted()
    }

    /// Waits for an event from librdkafka or the next timer.
    async fn wait(&self) {
        let tick = Instant::now() + MAX_IDLE;
        let retry_at = self.outage.retry_at().map_or(tick, |retry_at| retry_at.min(tick));
        _ = timeout_at(retry_at, self.client.woken()).await;
        if self.outage.is_on() {
            // Events must not shorten the retry delay.
            sleep_until(retry_at).await;
        }
    }

    /// Commits all read records, retrying until the timeout.
    async fn close(&mut self, limit: Duration) -> Result<(), RunError> {
        let closed = self.partitions.close(limit).await;
        self.update_ends();
        self.publish_positions();
        closed.map_err(RunError::Store)
    }
}

impl<F> fmt::Debug for KafkaConsumer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("settings", &self.settings)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
