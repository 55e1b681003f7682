use std::fmt;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::source::Sources;
use counter_core::visits::Hit;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{error, info, warn};

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
use crate::{BuildError, Builder, Decision, Record, RunError};

/// A member of a consumer group that counts the records of a topic, each exactly once.
///
/// See the [crate](crate) for an example, and for what is promised.
pub struct KafkaConsumer<F> {
    settings: Builder,
    client: Client,
    sources: Sources,
    opener: Opener,
    decider: Decider<F>,
    /// The partitions that the group gave to this member and that are not opened yet.
    joining: Vec<i32>,
    partitions: Partitions,
    /// The epoch whose visitor key has to be fetched before more is read.
    wanted_key: Option<Timestamp>,
    /// True while a broker may not have the positions that it was asked for.
    is_out_of_range: bool,
    /// The number of times in a row that a log was found to end before the position of the store.
    shorter: u32,
    outage: Outage,
    /// The time of the last commit, and the number of records that were read since.
    committed: Instant,
    uncommitted: u32,
    /// The time at which the store was last asked about partitions that are quiet.
    checked: Instant,
    /// The time at which the group last heard what is counted.
    told: Instant,
    joined: bool,
    trouble: Option<RDKafkaErrorCode>,
}

/// The result of a round of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Nothing is there now.
    Idle,
    /// There may be more.
    Some,
    /// It is time to commit.
    Full,
}

/// The number of records between two looks at the clock and the group.
const RECORDS: usize = 1000;

/// The longest wait when nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// The time that the last commits may take when the group takes partitions away and waits for it.
const REVOKE: Duration = Duration::from_secs(3);

/// The time between two words to the group about what is counted: as often as Kafka's own consumers.
const TELL: Duration = Duration::from_secs(5);

/// The time between two questions to the store about partitions without new records: what it lost in a failover is to
/// be read again although nothing comes.
const CHECK: Duration = Duration::from_secs(5);

/// The number of times that a log is asked again whether it is really so short: a leader that was just elected may
/// not know its end.
const SHORTER: u32 = 5;

impl KafkaConsumer<()> {
    /// Returns the settings of a consumer of this topic, in this group.
    ///
    /// `brokers` are addresses such as `kafka-1:9092,kafka-2:9092`.
    #[must_use]
    pub fn builder(brokers: &str, topic: &str, group: &str) -> Builder {
        Builder::new(brokers, topic, group)
    }
}

impl<F> KafkaConsumer<F>
where
    F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
{
    pub(crate) fn new(
        settings: Builder,
        config: &ClientConfig,
        sources: Sources,
        decide: F,
    ) -> Result<Self, BuildError> {
        let client = Client::new(config, &settings.topic)
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
            wanted_key: None,
            is_out_of_range: false,
            shorter: 0,
            outage: Outage::default(),
            committed: Instant::now(),
            uncommitted: 0,
            checked: Instant::now(),
            told: Instant::now(),
            joined: false,
            trouble: None,
        })
    }

    /// Joins the group and counts until `shutdown` completes, or, with [`Builder::until_end`], until everything
    /// is read; then counts what was read, and leaves the group.
    ///
    /// Brokers and a store that are away are waited for.
    ///
    /// # Errors
    /// Fails when a log ends [before the position of the store](RunError::LogReplaced), when librdkafka [failed for
    /// good](RunError::Client), and when the store did not take [the rest](RunError::Store).
    ///
    /// # Cancel safety
    /// Dropping the future neither loses nor doubles anything. The drop may block for a moment, in which the
    /// member leaves the group.
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
                self.follow(change).await?;
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

    async fn follow(&mut self, change: Change) -> Result<(), RunError> {
        match change {
            Change::Assigned(partitions) => {
                info!(topic = self.settings.topic, ?partitions, "partitions were assigned");
                self.partitions.clear();
                self.joining = partitions;
                self.joined = true;
                if self.joining.is_empty() {
                    self.assign()?;
                }
            }
            Change::Revoked => {
                if let Err(error) = self.close(REVOKE).await {
                    warn!(%error, "partitions go to another member with records that are not counted yet");
                }
                if self.outage.is_on() {
                    // What is paused would stay so when it comes back.
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

    /// Does what has to be done before more can be read: opens new partitions, fetches the key of an epoch, and
    /// finds out which positions the log does not have.
    async fn prepare(&mut self) -> Result<(), RunError> {
        if !self.joining.is_empty() {
            self.open().await?;
        }
        if let Some(at) = self.wanted_key {
            match self.sources.visitor_key(at).await {
                Ok((key, epoch)) => {
                    self.decider.keys.insert(epoch.start..epoch.end(), key);
                    self.wanted_key = None;
                }
                Err(error) => self.fail(&error)?,
            }
        }
        if self.is_out_of_range {
            self.find_lost()?;
        }
        Ok(())
    }

    /// Opens the partitions that were assigned, and begins to fetch them at the positions of the store.
    async fn open(&mut self) -> Result<(), RunError> {
        self.opener.learn_cluster(&self.client).await?;
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

    /// Fetches all partitions from their positions on.
    fn assign(&mut self) -> Result<(), RunError> {
        self.client.assign(self.partitions.seek(Instant::now()))?;
        if self.outage.is_on() {
            self.client.pause()?;
        }
        Ok(())
    }

    /// Fetches a partition from its position on.
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

    /// Folds what was fetched.
    fn read(&mut self) -> Result<Read, RunError> {
        let now = Instant::now();
        for _ in 0..RECORDS {
            let message = match self.client.poll() {
                None if self.client.membership().has_changes() => return Ok(Read::Some),
                None => return Ok(Read::Idle),
                Some(Err(error)) => {
                    self.note(&error)?;
                    continue;
                }
                Some(Ok(message)) => message,
            };
            // An offset is never negative in a message.
            let Ok(offset) = u64::try_from(message.offset()) else { continue };
            let number = message.partition();
            let Some(partition) = self.partitions.get_mut(number) else { continue };
            self.trouble = None;
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
                self.wanted_key = Some(at);
                // The record lies at the position or, after a gap, beyond. What was fetched is fetched again: once in
                // an epoch.
                partition.source.advance_to(offset);
                self.seek(number)?;
                return Ok(Read::Some);
            }
            let is_full = partition.fold(offset, decision, hits);
            self.uncommitted += 1;
            if is_full || self.uncommitted >= self.settings.commit_records.get() {
                return Ok(Read::Full);
            }
        }
        Ok(Read::Some)
    }

    fn note(&mut self, error: &KafkaError) -> Result<(), RunError> {
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
                // Once for each trouble: librdkafka tells it again and again.
                if self.trouble != code {
                    warn!(topic = self.settings.topic, %error, "the brokers have trouble");
                    self.trouble = code;
                }
                Ok(())
            }
        }
    }

    /// Asks for the ends of all partitions, since librdkafka's bindings do not say which one was out of range.
    ///
    /// The question blocks this thread for a moment. This is rare, and the alternatives are a thread of our own or
    /// `unsafe`.
    fn find_lost(&mut self) -> Result<(), RunError> {
        for (number, position) in self.partitions.positions().collect::<Vec<_>>() {
            let (beginning, end) = match self.client.ends_of(number) {
                Ok(ends) => ends,
                Err(error) => return self.fail(&error),
            };
            if position > end {
                self.shorter += 1;
                let error = RunError::LogReplaced { partition: number, position, end };
                return if self.shorter > SHORTER { Err(error) } else { self.fail(&error) };
            }
            let Some(partition) = self.partitions.get_mut(number) else { continue };
            if position < beginning && position > 0 {
                let (name, lost) = (partition.source.name(), beginning - position);
                error!(source = %name, lost, "the log removed records before they were counted");
                partition.source.lose(position..beginning);
                partition.is_dirty = true;
            }
        }
        (self.is_out_of_range, self.shorter) = (false, 0);
        self.assign()
    }

    fn is_commit_due(&self) -> bool {
        self.outage.is_on()
            || self.committed.elapsed() >= self.settings.commit_interval
            || self.settings.until_end && self.partitions.are_read()
    }

    async fn commit(&mut self) -> Result<(), RunError> {
        let checks = self.checked.elapsed() >= CHECK;
        let commits = self.partitions.commit(checks).await;
        (self.committed, self.uncommitted) = (Instant::now(), 0);
        if checks && commits.failed.is_none() {
            self.checked = Instant::now();
        }
        self.tell_ends();
        if self.told.elapsed() >= TELL {
            self.tell_group();
        }
        for (number, read) in commits.moved {
            self.follow_store(number, read)?;
        }
        match commits.failed {
            Some(error) => self.fail(&error),
            None => self.recover(),
        }
    }

    fn tell_ends(&mut self) {
        self.partitions.set_ends(self.client.membership().take_ends());
    }

    fn tell_group(&mut self) {
        self.client.tell_group(self.partitions.counted());
        self.told = Instant::now();
    }

    /// Goes to the position where the store is, which is not the one that was read up to.
    fn follow_store(&mut self, number: i32, read: u64) -> Result<(), RunError> {
        if let Some(partition) = self.partitions.get_mut(number) {
            let source = &partition.source;
            info!(source = %source.name(), read, position = source.position(), "the store is at another position");
            if source.position() < read {
                // A store that went back to an older state may have forgotten the salt of an epoch as well.
                self.decider.keys = Keys::default();
            }
        }
        self.seek(number)
    }

    /// Pauses reading since the store, or a broker, did not answer. The group still hears from this member.
    fn fail(&mut self, error: &dyn fmt::Display) -> Result<(), RunError> {
        if self.outage.fail() {
            warn!(topic = self.settings.topic, %error, "reading pauses until what was read can be counted");
            self.client.pause()?;
        }
        Ok(())
    }

    /// Reads on after a pause.
    fn recover(&mut self) -> Result<(), RunError> {
        if !self.outage.end() {
            return Ok(());
        }
        info!(topic = self.settings.topic, "reading goes on");
        self.client.resume()?;
        for (number, _) in self.partitions.positions().collect::<Vec<_>>() {
            self.seek(number)?;
        }
        Ok(())
    }

    /// Returns whether everything is read and counted.
    fn is_done(&self) -> bool {
        let has_all = self.joined && self.joining.is_empty();
        has_all && self.partitions.are_read() && self.partitions.are_counted()
    }

    /// Waits until librdkafka has something, or until it is time for something else.
    async fn wait(&self) {
        let tick = Instant::now() + TICK;
        let until = self.outage.until().map_or(tick, |until| until.min(tick));
        _ = timeout_at(until, self.client.woken()).await;
        if self.outage.is_on() {
            // Its own events must not make a pause shorter.
            sleep_until(until).await;
        }
    }

    /// Counts what was read, for as long as `limit` allows.
    async fn close(&mut self, limit: Duration) -> Result<(), RunError> {
        let closed = self.partitions.close(limit).await;
        self.tell_ends();
        self.tell_group();
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
