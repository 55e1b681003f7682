//! The `consume` command: counts records of Kafka topics exactly once, even if consumers, brokers or the
//! store fail.

use std::error::Error;
use std::io::{Write, stdout};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use counter_core::source::Sources;
use counter_core::visits::Hit;
use counter_core::{Counters, Recorder};
use counter_kafka::{Decision, KafkaConsumer, Start};
use counter_layer::Identity;
use counter_log::{LogCounter, record};
use futures_util::future::join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::summary::Summary;
use super::target::Target;
use crate::flags::clock;

/// Count records of Kafka topics. Each record is only counted once.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Brokers, e.g. kafka-1:9092,kafka-2:9092.
    #[arg(long, value_name = "BROKERS")]
    kafka: String,
    /// Topic to count, can be repeated.
    #[arg(long = "topic", required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Consumer group that shares the partitions.
    #[arg(long)]
    group: String,
    /// Where to start in a new topic.
    #[arg(long, value_enum, default_value_t = Begin::Earliest)]
    from: Begin,
    /// Exit at the end of all partitions.
    #[arg(long)]
    until_end: bool,
    /// Cluster name, instead of the cluster id.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Unique id to keep the partitions across a restart.
    #[arg(long, value_name = "ID")]
    instance_id: Option<String>,
    /// Time until partitions are taken from an unresponsive member.
    #[arg(long, default_value = "6", value_parser = clock::seconds, value_name = "SECONDS")]
    session_timeout: Duration,
    /// Maximum number of records between commits.
    #[arg(long, default_value_t = NonZeroU32::MAX, hide_default_value = true, value_name = "NUMBER")]
    commit_records: NonZeroU32,
    /// Setting of librdkafka, can be repeated.
    #[arg(long = "set", value_parser = setting, value_name = "NAME=VALUE")]
    set: Vec<(String, String)>,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Begin {
    Earliest,
    Latest,
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let started = Instant::now();
    let counters = tokio::select! {
        counters = settings.target.counters() => counters?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let sources = counters.sources();
    // This must be checked before we count anything: visitors must have the same id within a bucket.
    sources.check_salt()?;
    let mut consumers = Vec::new();
    for topic in &settings.topics {
        consumers.push(consumer(&settings, topic, &counters)?);
    }
    let stop = watch::Sender::new(false);
    let running = join_all(consumers.into_iter().map(async |consumer| {
        let mut stopped = stop.subscribe();
        let ended = consumer.run(async move { drop(stopped.wait_for(|stop| *stop).await) }).await;
        if ended.is_err() {
            // The other consumers should still count the records that they have read.
            stop.send_replace(true);
        }
        ended
    }));
    let stopping = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.send_replace(true);
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = running => ended,
        never = stopping => never,
    };
    let summary = Summary::new(&sources, counted_before(&sources), started.elapsed());
    summary.warn("");
    writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
    for ended in ended {
        ended?;
    }
    Ok(())
}

/// Returns the number of records that were counted before this run. However, this is based on offsets, so it
/// is too high if compaction or transactions leave gaps.
fn counted_before(sources: &Sources) -> u64 {
    // This source only marks that a topic was started at the end. It does not have records.
    let statuses = sources.statuses().into_iter().filter(|status| !status.name.ends_with(":begun"));
    statuses.map(|status| status.opened).sum()
}

type Decide = Box<dyn FnMut(&counter_kafka::Record<'_>, &mut Vec<Hit>) -> Decision>;

fn consumer(
    settings: &Settings,
    topic: &str,
    counters: &Counters,
) -> Result<KafkaConsumer<Decide>, Box<dyn Error>> {
    let mut builder = KafkaConsumer::builder(&settings.kafka, topic, &settings.group)
        .start(match settings.from {
            Begin::Earliest => Start::Earliest,
            Begin::Latest => Start::Latest,
        })
        .session_timeout(settings.session_timeout)
        .commit_records(settings.commit_records);
    if settings.until_end {
        builder = builder.until_end();
    }
    if let Some(cluster) = &settings.cluster {
        builder = builder.cluster(cluster);
    }
    if let Some(id) = &settings.instance_id {
        // The id must be unique because each topic has a separate consumer.
        builder = builder.instance_id(&format!("{id}-{topic}"));
    }
    for (name, value) in &settings.set {
        builder = builder.setting(name, value);
    }
    // The address in a record already is the client address.
    let client = Identity::peer();
    let mut requests = LogCounter::new(&settings.target.layer(counters, client)?);
    let recorder = counters.recorder();
    let decide: Decide = Box::new(move |record, hits| decide(&recorder, &mut requests, record, hits));
    Ok(builder.build(counters.sources(), decide)?)
}

fn decide(
    recorder: &Recorder,
    requests: &mut LogCounter,
    record: &counter_kafka::Record<'_>,
    hits: &mut Vec<Hit>,
) -> Decision {
    let Some(Ok(parsed)) = record.value().map(serde_json::from_slice) else { return Decision::Malformed };
    match parsed {
        record::Record::Counter(counter) => {
            let key = record.visitor_key(counter.at);
            if counter.visitor.is_some() && key.is_none() {
                return Decision::NeedsKey(counter.at);
            }
            hits.push(counter.hit(recorder, key));
            Decision::Counted(counter.at)
        }
        record::Record::Request(request) => {
            let Some(key) = record.visitor_key(request.at) else { return Decision::NeedsKey(request.at) };
            match request.decide(requests, key) {
                counter_log::Decision::Counted { hits: found, .. } => {
                    hits.extend_from_slice(found);
                    Decision::Counted(request.at)
                }
                counter_log::Decision::Skipped(skip) => Decision::Skipped(skip),
                counter_log::Decision::Malformed(_) => Decision::Malformed,
            }
        }
        _ => Decision::Malformed,
    }
}
