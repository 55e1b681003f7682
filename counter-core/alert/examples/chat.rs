//! An alert to a chat if more than 2 % of the jobs fail. The URL is an incoming webhook of Slack, Mattermost,
//! Rocket.Chat or Google Chat.
//!
//! ```sh
//! CHAT_URL=https://chat.example.com/hooks/x1y2z3 cargo run -p counter-alert --features webhook --example chat -- 97 3
//! ```
//!
//! This counts 97 jobs that succeed and 3 that fail. Within 15 seconds, the chat receives `warning: jobs:
//! jobs:failed are 3 % of jobs, above 2 %`. To end the program, press Ctrl-C.

use std::env::{args, var};
use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_alert::webhook::{Webhook, WebhookBody};
use counter_alert::{AlertRule, Watch};
use counter_core::{Counters, MemoryStore, Precision, Timestamp};
use tokio::signal::ctrl_c;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let jobs: Vec<NonZeroU32> = args().skip(1).map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [succeeded, failed] = jobs[..] else { return Err("usage: chat SUCCEEDED FAILED".into()) };

    // With a `RedisStore`, all instances can run a watch, and an alert is sent once.
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build()?;
    // Buckets of a second keep this example short. You should start with minutes, `raise_after(2)`, and the
    // default lateness of 15 s.
    let second = Precision::try_from(1)?;
    let rule = AlertRule::share_above("jobs", ["jobs:failed".parse()?], "jobs".parse()?, second, 0.02);
    let chat = Webhook::new(&var("CHAT_URL")?)?.body(WebhookBody::Slack);
    let mut watch = Watch::builder(counters.stats(), store)
        .rule(rule)
        .deliver(chat)
        .lateness(Duration::from_secs(2))
        .build()?;

    // A new watch starts at the latest bucket, so this must happen before the first hit.
    watch.check_once(Timestamp::now()).await?;
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    for (counter, hits) in [("jobs", succeeded), ("jobs", failed), ("jobs:failed", failed)] {
        recorder.record_at(recorder.counter(counter), None, now, hits);
    }

    let upkeep = counters.spawn();
    watch.run(async { _ = ctrl_c().await }).await;
    Ok(upkeep.stop().await?)
}
