//! Findings of an import: the lines that did not count, and reasons why the numbers may not mean what people expect.

use std::error::Error;
use std::io::{self, Write, stderr};
use std::path::Path;

use counter_log::{Reason, Report};

/// The findings of all logs of an import.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    logs: u64,
    lines: u64,
    counted: u64,
    /// Lines that an import has read before.
    already_read: u64,
    uncounted: Vec<Uncounted>,
    reports: Vec<Report>,
    /// The logs without a line that could be read.
    unreadable: Vec<String>,
}

/// Lines that did not count.
#[derive(Debug)]
struct Uncounted {
    reason: Reason,
    lines: u64,
    /// The log, and the number of the first line.
    first: String,
}

/// Minimum number of requests from a single address to assume that this is a proxy.
const MIN_PROXIED: u64 = 100;

impl Findings {
    /// Adds a log. `already_read` is the number of lines before those of the report.
    pub(crate) fn add(&mut self, log: &Path, already_read: u64, report: &Report) {
        self.logs += 1;
        self.already_read += already_read;
        self.lines += already_read + report.lines();
        self.counted += report.counted();
        for one in report.uncounted() {
            match self.uncounted.iter_mut().find(|other| other.reason == one.reason) {
                Some(other) => other.lines += one.lines,
                None => {
                    let number = one.first.map(|number| format!(", line {number}")).unwrap_or_default();
                    let first = format!("{}{number}", log.display());
                    self.uncounted.push(Uncounted { reason: one.reason, lines: one.lines, first });
                }
            }
        }
        if already_read == 0 && report.lines() > 0 && report.malformed() == report.lines() {
            self.unreadable.push(log.display().to_string());
        }
        self.reports.push(report.clone());
    }

    /// Returns the number of lines that an import has read before.
    pub(crate) const fn already_read(&self) -> u64 {
        self.already_read
    }

    /// Writes a paragraph for people, and logs what may be wrong.
    pub(crate) fn print(&self, trusts_proxies: bool) -> io::Result<()> {
        if self.logs == 0 {
            return Ok(());
        }
        let mut text = format!("Read {}, and counted {}.", amount(self.lines, "line"), grouped(self.counted));
        if self.already_read > 0 {
            let lines = amount(self.already_read, "line");
            text += &format!(
                "\nNot counted again: {lines}, because an import has read this part of the log before."
            );
        }
        for Uncounted { reason, lines, first } in &self.uncounted {
            text += &format!("\nNot counted: {}, because {reason} (first: {first}).", amount(*lines, "line"));
        }
        writeln!(stderr(), "{text}")?;
        self.warn(trusts_proxies);
        Ok(())
    }

    fn warn(&self, trusts_proxies: bool) {
        let sum = |part: fn(&counter_log::Hints) -> u64| {
            self.reports.iter().map(|report| part(&report.hints())).sum::<u64>()
        };
        let most = |lines: u64| lines > 0 && lines * 2 >= self.counted;
        let without_user_agent = sum(|hints| hints.without_user_agent);
        if without_user_agent > 0 {
            tracing::warn!(
                requests = without_user_agent,
                "the log does not contain user agents: bots are not separated from people, and clients with the same \
                 address are one visitor"
            );
        }
        let without_address = sum(|hints| hints.without_address);
        if without_address > 0 && !trusts_proxies {
            tracing::warn!(
                requests = without_address,
                "the log does not contain an address that can be read, so these requests have no visitors"
            );
        }
        let has_addresses = self.reports.iter().any(|report| report.hints().has_addresses);
        if most(sum(|hints| hints.forwarded)) && !trusts_proxies {
            tracing::warn!(
                "the log contains X-Forwarded-For, but no proxy is trusted: all people behind a proxy who use the same \
                 browser count as one visitor. Pass the number of your proxies as --trust-hops"
            );
        } else if self.counted >= MIN_PROXIED && !has_addresses && without_address == 0 && !trusts_proxies {
            tracing::warn!(
                "all requests have the same address, like behind a proxy: people who use the same browser count as one \
                 visitor. The proxy should log them, or forward their addresses"
            );
        }
        let without_time_zone = sum(|hints| hints.without_time_zone);
        if without_time_zone > 0 {
            tracing::warn!(
                requests = without_time_zone,
                "the times do not contain a time zone and were read as UTC: set --log-time-zone to that of the server"
            );
        }
        if self.counted == 0
            && self
                .uncounted
                .iter()
                .any(|one| matches!(one.reason, Reason::Skipped(counter_core::visits::Skip::Unmatched)))
        {
            tracing::warn!("no path in the log matches --route or --rules");
        }
    }

    /// Fails if a log has lines, but none of them could be read.
    pub(crate) fn check(&self) -> Result<(), Box<dyn Error>> {
        match self.unreadable.first() {
            None => Ok(()),
            Some(log) => Err(format!(
                "{log}: none of the lines could be read, so --format is probably not the format of this log"
            )
            .into()),
        }
    }
}

/// Returns a number with a noun, like `1,500 lines`.
fn amount(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns a number with group separators, like `1,500`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
