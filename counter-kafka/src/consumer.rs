use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::source::{Commit, Sources};
use counter_core::visits::Hit;
use futures_util::future::join_all;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{error, info, warn};

use crate::builder::source_name;
use crate::error::is_out_of_range;
use crate::membership::{Change, Membership};
use crate::partition::{Folded, Partition};
use crate::record::Keys;
use crate::{BuildError, Builder, Decision, Record, RunError, Start};

/// A member of a consumer group that counts the records of a topic, each exactly once.
///
/// See the [crate](crate) for an example, and for what is promised.
pub struct KafkaConsumer<F> {
    settings: Builder,
    client: Client,
    sources: Sources,
    decide: F,
    /// The partitions that the group gave to this member and that are not opened yet.
    joining: Vec<i32>,
    partitions: BTreeMap<i32, Partition>,
    keys: Keys,
    hits: Vec<Hit>,
    /// The epoch whose visitor key has to be fetched before more is read.
    wanted_key: Option<Timestamp>,
    /// True while a broker may not have the positions that it was asked for.
    is_out_of_range: bool,
    /// The number of times in a row that a log was found to end before the position of the store.
    shorter: u32,
    /// The pause of a consumer whose store is away.
    outage: Option<Outage>,
    committed: Instant,
    joined: bool,
    trouble: Option<RDKafkaErrorCode>,
}

/// A store that is away, or a broker that does not answer a question: when to try again.
#[derive(Clone, Copy, Debug)]
struct Outage {
    pause: Duration,
    again: Instant,
}

/// The client of librdkafka, which leaves the group when it is dropped.
struct Client {
    consumer: BaseConsumer<Membership>,
    wake: Arc<Notify>,
}

/// The result of a round of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Nothing is there now.
    Idle,
    /// There may be more.
    Some,
    /// A batch is full.
    Full,
}

/// The number of records between two looks at the clock and the group.
const RECORDS: usize = 1000;

/// The longest wait when nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// The pauses of a consumer whose store is away.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time that the last commits may take when the group takes partitions away and waits for it.
const REVOKE: Duration = Duration::from_secs(3);

/// The time that a broker has for a question that blocks, which is asked when positions are out of range, and
/// when a partition is begun at its end.
const QUESTION: Duration = Duration::from_secs(2);

/// The number of times that a log is asked again whether it is really so short: a leader that was just elected may
/// not know its end.
const SHORTER: u32 = 5;

/// The time that brokers have to tell the id of their cluster.
const CLUSTER_ID: Duration = Duration::from_secs(30);

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
        let refused = |error: KafkaError| BuildError::Settings(error.to_string());
        let mut consumer =
            BaseConsumer::from_config_and_context(config, Membership::default()).map_err(refused)?;
        let wake = Arc::new(Notify::new());
        let woken = Arc::clone(&wake);
        consumer.set_nonempty_callback(move || woken.notify_one());
        Ok(Self {
            settings,
            client: Client { consumer, wake },
            sources,
            decide,
            joining: Vec::new(),
            partitions: BTreeMap::new(),
            keys: Keys::default(),
            hits: Vec::new(),
            wanted_key: None,
            is_out_of_range: false,
            shorter: 0,
            outage: None,
            committed: Instant::now(),
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
        self.client.consumer.subscribe(&[&self.settings.topic])?;
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
            if self.may_try() {
                self.prepare().await?;
            }
            let read = self.read()?;
            if self.may_try() && (read == Read::Full || self.is_commit_due()) {
                self.commit().await?;
            }
            if self.settings.until_end && self.is_at_end() {
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
                    self.client.consumer.assign(&TopicPartitionList::new())?;
                }
            }
            Change::Revoked => {
                if let Err(error) = self.close(REVOKE).await {
                    warn!(%error, "partitions go to another member with records that are not counted yet");
                }
                if self.outage.is_some() {
                    // What is paused would stay so when it comes back.
                    self.client.consumer.resume(&self.client.consumer.assignment()?)?;
                }
                self.joined = false;
                self.joining.clear();
                self.partitions.clear();
                self.client.consumer.unassign()?;
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
                    self.keys.insert(epoch.start..epoch.end(), key);
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
        let cluster = self.cluster().await?;
        while let Some(&number) = self.joining.last() {
            let name = source_name(&cluster, &self.settings.topic, number)
                .map_err(|error| RunError::Client(error.to_string()))?;
            let mut source = match self.sources.open(name).await {
                Ok(source) => source,
                Err(error) => return self.fail(&error),
            };
            if source.position() == 0 && self.settings.start == Start::Latest {
                match self.client.ends_of(&self.settings.topic, number) {
                    Ok((_, end)) => source.advance_to(end),
                    Err(error) => return self.fail(&error),
                }
                // The place is remembered before anything is read: records of an outage belong to the topic.
                match source.close().await {
                    Ok(Commit::Done | Commit::Moved) => {}
                    Err(error) => return self.fail(&error),
                }
            }
            self.joining.pop();
            self.partitions.insert(number, Partition::new(source));
        }
        self.outage = None;
        self.assign()
    }

    /// Returns the name of the cluster, which librdkafka knows since it joined the group.
    async fn cluster(&mut self) -> Result<String, RunError> {
        if let Some(cluster) = &self.settings.cluster {
            return Ok(cluster.clone());
        }
        let limit = Instant::now() + CLUSTER_ID;
        loop {
            // With no time, it only says what it knows.
            if let Some(id) = self.client.consumer.client().fetch_cluster_id(Duration::ZERO) {
                return Ok(self.settings.cluster.insert(id).clone());
            }
            if Instant::now() > limit {
                return Err(RunError::NoClusterId);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Fetches all partitions from their positions on; what was fetched before is dropped by librdkafka.
    fn assign(&mut self) -> Result<(), RunError> {
        let list = self.list(|partition| match partition.source.position() {
            // On a log whose beginning was removed, 0 would be out of range.
            0 => Offset::Beginning,
            position => offset(position),
        })?;
        self.client.consumer.assign(&list)?;
        if self.outage.is_some() {
            self.client.consumer.pause(&list)?;
        }
        Ok(())
    }

    fn list(&self, offset: impl Fn(&Partition) -> Offset) -> Result<TopicPartitionList, RunError> {
        let mut list = TopicPartitionList::new();
        for (number, partition) in &self.partitions {
            list.add_partition_offset(&self.settings.topic, *number, offset(partition))?;
        }
        Ok(list)
    }

    /// Folds what was fetched.
    fn read(&mut self) -> Result<Read, RunError> {
        for _ in 0..RECORDS {
            let message = match self.client.consumer.poll(Duration::ZERO) {
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
            let Some(partition) = self.partitions.get_mut(&message.partition()) else { continue };
            self.trouble = None;
            self.hits.clear();
            let record = Record::new(&message, &self.keys);
            let decided = catch_unwind(AssertUnwindSafe(|| (self.decide)(&record, &mut self.hits)));
            let decision = decided.unwrap_or_else(|_| {
                error!(partition = message.partition(), offset, "the closure panicked at a record");
                Decision::Malformed
            });
            match partition.fold(offset, decision, &self.hits) {
                Folded::Open => {}
                Folded::Full => return Ok(Read::Full),
                Folded::NeedsKey(at) => {
                    let number = message.partition();
                    drop(message);
                    // It was asked for in vain if the key is there, and would be for ever.
                    if self.keys.get(at).is_some() {
                        error!(partition = number, offset, "the closure asks for a key that it was given");
                        let Some(partition) = self.partitions.get_mut(&number) else { continue };
                        _ = partition.fold(offset, Decision::Malformed, &[]);
                        continue;
                    }
                    self.wanted_key = Some(at);
                    // Everything that was fetched is fetched again: once in an epoch.
                    self.assign_from(number, offset)?;
                    return Ok(Read::Some);
                }
            }
        }
        Ok(Read::Some)
    }

    /// Fetches a partition again from an offset on, which lies at its position or, after a gap, beyond.
    fn assign_from(&mut self, number: i32, offset: u64) -> Result<(), RunError> {
        if let Some(partition) = self.partitions.get_mut(&number) {
            partition.source.advance_to(offset);
        }
        self.seek(number)
    }

    /// Fetches a partition from its position on. What was fetched before is dropped: librdkafka marks it as outdated
    /// before the call returns.
    fn seek(&mut self, number: i32) -> Result<(), RunError> {
        let Some(partition) = self.partitions.get_mut(&number) else { return Ok(()) };
        partition.is_at_end = false;
        let position = match partition.source.position() {
            0 => Offset::Beginning,
            position => offset(position),
        };
        // It waits for a thread of librdkafka, not for a broker. A partition that is not fetched yet, or stopped by
        // an error, cannot seek.
        if self.client.consumer.seek(&self.settings.topic, number, position, QUESTION).is_err() {
            return self.assign();
        }
        Ok(())
    }

    fn note(&mut self, error: &KafkaError) -> Result<(), RunError> {
        if is_out_of_range(error) {
            self.is_out_of_range = true;
            return Ok(());
        }
        match error {
            KafkaError::PartitionEOF(number) => {
                if let Some(partition) = self.partitions.get_mut(number) {
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
        for (&number, partition) in &mut self.partitions {
            let (beginning, end) = match self.client.ends_of(&self.settings.topic, number) {
                Ok(ends) => ends,
                Err(error) => return self.fail(&error),
            };
            let position = partition.source.position();
            if position > end {
                self.shorter += 1;
                let error = RunError::LogReplaced { partition: number, position, end };
                return if self.shorter > SHORTER { Err(error) } else { self.fail(&error) };
            }
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
        self.outage.is_some()
            || self.committed.elapsed() >= self.settings.commit_interval
            || self.settings.until_end && self.partitions.values().all(|partition| partition.is_at_end)
    }

    /// Sends what was folded to the store, of all partitions at once.
    async fn commit(&mut self) -> Result<(), RunError> {
        let dirty = self.partitions.iter_mut().filter(|(_, partition)| partition.is_dirty);
        let commits = dirty.map(async |(&number, partition)| {
            let position = partition.source.position();
            let commit = partition.source.commit().await;
            // Nothing is read meanwhile.
            partition.is_dirty = commit.is_err();
            (number, position, commit)
        });
        let commits = join_all(commits).await;
        self.committed = Instant::now();
        self.tell_ends();
        let mut failed = None;
        for (number, position, commit) in commits {
            match commit {
                Ok(Commit::Done) => {}
                Ok(Commit::Moved) => self.follow_store(number, position)?,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => self.fail(&error),
            None => self.recover(),
        }
    }

    /// Goes to the position where the store is, which is not the one that was read up to.
    fn follow_store(&mut self, number: i32, read: u64) -> Result<(), RunError> {
        if let Some(partition) = self.partitions.get(&number) {
            let source = &partition.source;
            info!(source = %source.name(), read, position = source.position(), "the store is at another position");
            if source.position() < read {
                // A store that went back to an older state may have forgotten the salt of an epoch as well.
                self.keys = Keys::default();
            }
        }
        self.seek(number)
    }

    fn tell_ends(&mut self) {
        for (number, end) in self.client.membership().take_ends() {
            if let Some(partition) = self.partitions.get_mut(&number) {
                partition.source.set_end(end);
            }
        }
    }

    /// Pauses reading since the store, or a broker, did not answer. The group still hears from this member.
    fn fail(&mut self, error: &dyn fmt::Display) -> Result<(), RunError> {
        let pause = match self.outage {
            Some(outage) => (outage.pause * 2).min(LONGEST_PAUSE),
            None => {
                warn!(topic = self.settings.topic, %error, "reading pauses until what was read can be counted");
                let list = self.client.consumer.assignment()?;
                self.client.consumer.pause(&list)?;
                FIRST_PAUSE
            }
        };
        self.outage = Some(Outage { pause, again: Instant::now() + pause });
        Ok(())
    }

    /// Reads on after a pause.
    fn recover(&mut self) -> Result<(), RunError> {
        if self.outage.take().is_none() {
            return Ok(());
        }
        info!(topic = self.settings.topic, "reading goes on");
        let list = self.client.consumer.assignment()?;
        self.client.consumer.resume(&list)?;
        for number in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.seek(number)?;
        }
        Ok(())
    }

    /// Returns whether the store may be asked now.
    fn may_try(&self) -> bool {
        self.outage.is_none_or(|outage| outage.again <= Instant::now())
    }

    fn is_at_end(&self) -> bool {
        let is_done = |partition: &Partition| partition.is_at_end && !partition.is_dirty;
        self.joined && self.joining.is_empty() && self.partitions.values().all(is_done)
    }

    /// Waits until librdkafka has something, or until it is time for something else.
    async fn wait(&self) {
        let tick = Instant::now() + TICK;
        let until = self.outage.map_or(tick, |outage| outage.again.min(tick));
        _ = timeout_at(until, self.client.wake.notified()).await;
        if self.outage.is_some() {
            // Its own events must not make a pause shorter.
            sleep_until(until).await;
        }
    }

    /// Counts what was read, for as long as `limit` allows.
    async fn close(&mut self, limit: Duration) -> Result<(), RunError> {
        let mut failed = None;
        let closing = async {
            for partition in self.partitions.values_mut() {
                let mut pause = FIRST_PAUSE;
                // Where the store is elsewhere, another reader goes on from there.
                while let Err(error) = partition.source.close().await {
                    failed = Some(error);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                failed = None;
            }
        };
        let in_time = timeout(limit, closing).await.is_ok();
        self.tell_ends();
        if in_time {
            return Ok(());
        }
        let hits = self.partitions.values().map(|partition| partition.source.ledger().hits.pending).sum();
        let unflushed = || counter_core::Error::new(counter_core::ErrorKind::Unflushed { hits });
        Err(RunError::Store(failed.unwrap_or_else(unflushed)))
    }
}

impl Client {
    fn membership(&self) -> &Membership {
        self.consumer.context()
    }

    /// Asks the broker for the first offset of a partition and the one behind its last; it blocks.
    fn ends_of(&self, topic: &str, number: i32) -> Result<(u64, u64), KafkaError> {
        let (beginning, end) = self.consumer.fetch_watermarks(topic, number, QUESTION)?;
        Ok((u64::try_from(beginning).unwrap_or_default(), u64::try_from(end).unwrap_or_default()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.membership().leave();
        // The answer to a change that the group may be waiting for.
        _ = self.consumer.unassign();
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

/// Returns a position as an offset; positions end at 2^53.
fn offset(position: u64) -> Offset {
    Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX))
}
