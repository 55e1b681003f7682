//! Alerts and reports.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use counter_alert::webhook::{Webhook, WebhookBody};
use counter_alert::{AlertRule, ReportSchedule, Watch};
use counter_core::{AnyStore, Stats, Timestamp};
use serde_json::json;

use crate::problem::At;

/// Options for alerts and reports.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Alerts")]
pub(crate) struct Settings {
    /// Send alerts about errors, traffic and the store.
    #[arg(long, env = "COUNTER_ALERTS")]
    alerts: bool,
    /// JSON file with rules, instead of the default rules.
    #[arg(long, env = "COUNTER_ALERT_RULES", value_name = "FILE")]
    alert_rules: Option<PathBuf>,
    /// Send reports, daily or weekly.
    #[arg(long, env = "COUNTER_REPORT", value_name = "PERIOD", hide_possible_values = true)]
    report: Option<Period>,
    /// Where to send alerts and reports.
    #[arg(long, env = "COUNTER_WEBHOOK", hide_env_values = true, value_name = "URL")]
    webhook: Option<String>,
    /// Secret to sign messages, starting with whsec_.
    #[arg(
        long,
        env = "COUNTER_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        requires = "webhook"
    )]
    webhook_secret: Option<String>,
    /// json, text, slack or discord.
    #[arg(
        long,
        env = "COUNTER_WEBHOOK_BODY",
        value_name = "FORMAT",
        default_value = "json",
        hide_possible_values = true,
        requires = "webhook"
    )]
    webhook_body: Body,
}

/// The rules and the webhook, which do not depend on a store.
pub(super) struct Prepared {
    /// The rules of the file.
    rules: Option<Vec<AlertRule>>,
    webhook: Option<Webhook>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Period {
    Daily,
    Weekly,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Body {
    Json,
    Text,
    Slack,
    Discord,
}

impl Settings {
    /// Reads the rules, and checks the webhook.
    ///
    /// # Errors
    ///
    /// Returns an error if the rules file can't be read, or if a setting is invalid.
    pub(super) fn prepare(&self) -> Result<Prepared, Box<dyn Error>> {
        let rules = match &self.alert_rules {
            Some(file) => {
                let text = fs::read_to_string(file).at(self.place())?;
                Some(serde_json::from_str(&text).at(self.place())?)
            }
            None => None,
        };
        if self.webhook.is_some() && !self.alerts && rules.is_none() && self.report.is_none() {
            return Err("--webhook needs --alerts, --alert-rules or --report".into());
        }
        // The URL is not named, because it contains a secret.
        let webhook = self.webhook.as_deref().map(|address| self.deliver_to(address)).transpose()?;
        Ok(Prepared { rules, webhook })
    }

    fn deliver_to(&self, address: &str) -> Result<Webhook, Box<dyn Error>> {
        let webhook = Webhook::new(address).at("--webhook")?.body(match self.webhook_body {
            Body::Json => WebhookBody::Json,
            Body::Text => WebhookBody::Text,
            Body::Slack => WebhookBody::Slack,
            Body::Discord => WebhookBody::Discord,
        });
        match &self.webhook_secret {
            Some(secret) => webhook.secret(secret).at("--webhook-secret"),
            None => Ok(webhook),
        }
    }

    /// Names the rules in an error.
    fn place(&self) -> String {
        match &self.alert_rules {
            Some(file) => format!("--alert-rules {}", file.display()),
            None => "--alerts".to_owned(),
        }
    }

    /// Returns the watch, or `None` if alerts and reports are disabled. `local_offset` returns the UTC offset of
    /// the site in seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule is invalid.
    pub(super) fn watch(
        &self,
        Prepared { rules, webhook }: Prepared,
        stats: Stats,
        store: &AnyStore,
        local_offset: impl Fn(Timestamp) -> i32 + Send + Sync + 'static,
    ) -> Result<Option<Watch>, Box<dyn Error>> {
        let rules = match rules {
            Some(rules) => rules,
            None if self.alerts => default_rules(stats.grid().distributions.is_some()),
            None => Vec::new(),
        };
        if rules.is_empty() && self.report.is_none() {
            return Ok(None);
        }
        let mut watch = Watch::builder(stats, store.clone()).rules(rules);
        if let Some(period) = self.report {
            let site = "hits".parse()?;
            let schedule = match period {
                Period::Daily => ReportSchedule::daily("daily", site),
                Period::Weekly => ReportSchedule::weekly("weekly", site),
            };
            let errors = ["status:5xx".parse()?, "status:failed".parse()?];
            let schedule = schedule.share("errors", errors).share("bots", ["agent:bot".parse()?]);
            watch = watch.report(schedule.title("Example").local_time(local_offset));
        }
        if let Some(webhook) = webhook {
            watch = watch.deliver(webhook);
        }
        watch.build().map(Some).at(self.place())
    }
}

/// Returns default rules that suit most sites, in the format of the rules file.
fn default_rules(has_distributions: bool) -> Vec<AlertRule> {
    let mut rules = vec![
        json!({
            "name": "errors", "severity": "critical", "raise_after": 2, "resolve_after": 5,
            "when": { "share_above": { "parts": ["status:5xx", "status:failed"], "whole": "hits", "share": 0.05, "at_least": 20 } },
        }),
        json!({
            "name": "not found", "precision": 300, "resolve_after": 3, "pause": 3600,
            "when": { "share_above": { "parts": ["status:4xx"], "whole": "hits", "share": 0.5, "at_least": 50 } },
        }),
        json!({
            "name": "unusual traffic", "precision": 300, "raise_after": 3, "resolve_after": 3,
            "when": { "unusual": { "counter": "hits" } },
        }),
        json!({ "name": "store", "severity": "critical", "when": { "store_away": { "seconds": 30 } } }),
        json!({ "name": "clock", "when": { "clock_skew_above": { "seconds": 5 } } }),
        json!({
            "name": "new referrer", "severity": "info", "precision": 3600,
            "when": { "new_label": { "label": "referrer", "places": 10, "at_least": 20 } },
        }),
    ];
    if has_distributions {
        rules.push(json!({
            "name": "slow", "raise_after": 5, "resolve_after": 5,
            "when": { "quantile_above": { "counter": "hits", "measure": "time", "q": 0.9, "value": 2, "at_least": 20 } },
        }));
    }
    serde_json::from_value(rules.into()).expect("the default rules are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rules_are_valid() {
        assert_eq!((default_rules(false).len(), default_rules(true).len()), (6, 7));
    }
}
