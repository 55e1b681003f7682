//! Counts the records of a topic into Redis: JSON objects such as
//! `{"counter":"signups","at":1763700000,"n":3,"visitor":"ann"}`, of which `n` and `visitor` may be missing, and requests
//! such as `{"path":"/articles/7","status":200,"at":1763700000,"address":"192.0.2.1","user_agent":"curl/8"}`, of which
//! `path` and `at` have to be there. Requests go through the rules of the layer.
//!
//! At the end, or after SIGTERM, it prints its account as one line of JSON.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use counter_core::source::SourceStatus;
use counter_core::stores::Namespace;
use counter_core::visits::Hit;
use counter_core::{Counters, Recorder, RedisStore};
use counter_kafka::{Decision, KafkaConsumer, Start};
use counter_layer::log::{self, LogCounter};
use counter_layer::{AccessCounterLayer, Rules, RulesBuilder, record};
use tokio::signal::unix::{SignalKind, signal};

/// Counts the records of a Kafka topic into Redis, each exactly once.
#[derive(Debug, Parser)]
struct Settings {
    /// Brokers to begin with, such as kafka-1:9092,kafka-2:9092.
    #[arg(long)]
    kafka: String,
    /// Topic whose records are counted.
    #[arg(long)]
    topic: String,
    /// Consumer group, whose members share the partitions.
    #[arg(long)]
    group: String,
    /// Redis to keep the counts in, such as redis://127.0.0.1:6379.
    #[arg(long)]
    redis: String,
    /// Prefix of the keys in Redis.
    #[arg(long, default_value_t)]
    namespace: Namespace,
    /// Place where a partition begins that was never counted: earliest or latest.
    #[arg(long, default_value = "earliest", value_parser = start)]
    from: Start,
    /// Ends when all partitions were read to their ends.
    #[arg(long)]
    until_end: bool,
    /// Name of the cluster, instead of the id that its brokers tell.
    #[arg(long)]
    cluster: Option<String>,
    /// Id under which this member keeps its partitions over a restart.
    #[arg(long)]
    instance_id: Option<String>,
    /// Seconds after which the group takes the partitions of a silent member.
    #[arg(long, default_value_t = 45)]
    session_timeout: u64,
    /// File of the rules that requests go through, in JSON; without it they count under `hits` only.
    #[arg(long)]
    rules: Option<PathBuf>,
    /// Further settings of librdkafka, such as security.protocol=ssl.
    #[arg(long, value_parser = setting)]
    set: Vec<(String, String)>,
}

fn start(text: &str) -> Result<Start, &'static str> {
    match text {
        "earliest" => Ok(Start::Earliest),
        "latest" => Ok(Start::Latest),
        _ => Err("neither earliest nor latest"),
    }
}

fn setting(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("no NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(stderr).init();
    match run(Settings::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "the consumer ended");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(&settings.redis, settings.namespace).await?;
    let counters = Counters::builder(store).build()?;
    let sources = counters.sources();
    // Before anything is counted: visitors have to be told apart in every bucket.
    sources.check_salt()?;
    let mut builder = KafkaConsumer::builder(&settings.kafka, &settings.topic, &settings.group)
        .start(settings.from)
        .session_timeout(Duration::from_secs(settings.session_timeout));
    if settings.until_end {
        builder = builder.until_end();
    }
    if let Some(cluster) = &settings.cluster {
        builder = builder.cluster(cluster);
    }
    if let Some(id) = &settings.instance_id {
        builder = builder.instance_id(id);
    }
    for (name, value) in &settings.set {
        builder = builder.setting(name, value);
    }
    let recorder = counters.recorder();
    let rules: RulesBuilder = match &settings.rules {
        Some(file) => serde_json::from_slice(&std::fs::read(file)?)?,
        None => Rules::builder(),
    };
    let mut requests = AccessCounterLayer::new(recorder.clone()).rules(rules.build()?).log_counter();
    let consumer =
        builder.build(sources.clone(), move |record, hits| decide(&recorder, &mut requests, record, hits))?;

    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let shutdown = async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    let began = Instant::now();
    let ended = consumer.run(shutdown).await;
    writeln!(stdout(), "{}", account(&sources.statuses(), began.elapsed()))?;
    Ok(ended?)
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
                log::Decision::Counted { hits: found, .. } => {
                    hits.extend_from_slice(found);
                    Decision::Counted(request.at)
                }
                log::Decision::Skipped(skip) => Decision::Skipped(skip),
                log::Decision::Malformed(_) => Decision::Malformed,
            }
        }
        _ => Decision::Malformed,
    }
}

/// Returns the sums over all partitions.
fn account(statuses: &[SourceStatus], elapsed: Duration) -> serde_json::Value {
    let sum = |field: fn(&SourceStatus) -> u64| statuses.iter().map(field).sum::<u64>();
    serde_json::json!({
        "read": sum(|status| status.ledger.records.read),
        "recorded": sum(|status| status.ledger.records.recorded),
        "excluded": sum(|status| status.ledger.records.excluded),
        "unmatched": sum(|status| status.ledger.records.unmatched),
        "malformed": sum(|status| status.ledger.records.malformed),
        "already_counted": sum(|status| status.ledger.records.already_counted),
        "lost": sum(|status| status.ledger.records.lost),
        "seconds": elapsed.as_secs_f64(),
    })
}
