//! Counts the records of Kafka topics: each record once, whatever consumers, brokers and the store go through.

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

/// Counts the records of Kafka topics; records that were counted before are not counted again.
///
/// A record is a JSON object such as {"counter":"signups","at":1763700000,"n":3,"visitor":"ann"}, of which n and visitor
/// may be missing, or a request such as {"path":"/articles/7","method":"GET","status":200,"at":1763700000,"address":
/// "192.0.2.1","user_agent":"curl/8","time":0.012,"body":0.02,"size":512}, of which path and at have to be there, and which
/// goes through the rules.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Brokers to begin with, such as kafka-1:9092,kafka-2:9092.
    #[arg(long, value_name = "BROKERS")]
    kafka: String,
    /// Topic whose records are counted; may be repeated.
    #[arg(long = "topic", required = true, value_name = "T")]
    topics: Vec<String>,
    /// Consumer group, whose members share the partitions.
    #[arg(long, value_name = "G")]
    group: String,
    #[command(flatten)]
    target: Target,
    /// Place where a topic begins that was never counted.
    #[arg(long, value_enum, default_value_t = Begin::Earliest)]
    from: Begin,
    /// End when all partitions of this member were read to their ends.
    #[arg(long)]
    until_end: bool,
    /// Name of the cluster, instead of the id that its brokers tell; a topic that was created again needs another one.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Id under which this member keeps its partitions over a restart; no two members may have the same.
    #[arg(long, value_name = "ID")]
    instance_id: Option<String>,
    /// Seconds after which the group takes the partitions of a silent member.
    #[arg(long, default_value = "6", value_parser = clock::seconds, value_name = "S")]
    session_timeout: Duration,
    /// Largest number of records between two commits.
    #[arg(long, default_value_t = NonZeroU32::MAX, hide_default_value = true, value_name = "N")]
    commit_records: NonZeroU32,
    /// Further setting of librdkafka, such as security.protocol=ssl; may be repeated.
    #[arg(long = "set", value_parser = setting, value_name = "NAME=VALUE")]
    set: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Begin {
    Earliest,
    Latest,
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("no NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let began = Instant::now();
    let counters = tokio::select! {
        counters = settings.target.counters() => counters?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let sources = counters.sources();
    // Before anything is counted: visitors have to be told apart in every bucket.
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
            // The others count what they have read.
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
    let summary = Summary::new(&sources, counted_before(&sources), began.elapsed());
    summary.warn();
    writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
    for ended in ended {
        ended?;
    }
    Ok(())
}

/// Returns the number of offsets before those at which the partitions were opened. Where compaction and transactions
/// leave gaps, there were less records.
fn counted_before(sources: &Sources) -> u64 {
    // One remembers that a topic was begun at its end, and has no records.
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
        // Each topic has a member of its own.
        builder = builder.instance_id(&format!("{id}-{topic}"));
    }
    for (name, value) in &settings.set {
        builder = builder.setting(name, value);
    }
    // The address in a record is that of the client.
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
