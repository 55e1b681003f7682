//! Bucket settings, either from the command line or from the store.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use counter_core::time::{Grid, LocalDays};
use counter_core::visits::Builder;
use counter_core::{Counters, ErrorKind};
use tokio::time::timeout;

use super::clock;
use crate::problem::{Problem, explain};
use crate::retry::Retry;

/// Bucket options, which are the same for all commands.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Store")]
pub(crate) struct Settings {
    /// UTC offset of days, e.g. +01:00 or -05:30.
    #[arg(long, env = "COUNTER_UTC_OFFSET", value_name = "OFFSET", value_parser = clock::utc_offset, allow_hyphen_values = true)]
    utc_offset: Option<i32>,
    /// Time zone of the site, e.g. Europe/Berlin.
    #[arg(long, env = "COUNTER_TIME_ZONE", value_name = "ZONE", value_parser = time_zone, allow_hyphen_values = true)]
    pub(crate) time_zone: Option<String>,
    /// Change the buckets, and hide older counts.
    #[arg(long)]
    pub(crate) change_grid: bool,
}

/// Upper bound for UTC offsets in seconds.
const MAX_OFFSET: i32 = 15 * 3600;

/// What to do if the store does not keep the days of the time zone.
pub(crate) const TIME_ZONE_REMEDY: &str =
    "Start with --change-grid to keep them from now on. Older counts will not be shown any more.";

/// Time to wait for the store at startup. After this, the server starts without it.
const START_TIMEOUT: Duration = Duration::from_secs(3);

impl Settings {
    /// Checks the options, before a store is created.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no buckets to change to.
    pub(crate) fn check(&self) -> Result<(), Box<dyn Error>> {
        match self.change_grid && self.utc_offset.is_none() && self.time_zone.is_none() {
            true => Err("--change-grid needs --utc-offset or --time-zone, which set the new buckets".into()),
            false => Ok(()),
        }
    }

    /// Builds counters with the buckets of these options. If there is no UTC offset, the buckets of the store are
    /// used, if it has any. This waits for the store to become available.
    ///
    /// # Errors
    ///
    /// Returns an error if the store uses different buckets and `--change-grid` is not set, or if it does not
    /// respond for a minute. `store` is the option of the store, for messages.
    pub(crate) async fn build(&self, builder: Builder, store: &str) -> Result<Counters, Box<dyn Error>> {
        let mut retry = Retry::new(store);
        loop {
            match self.try_build(builder.clone()).await {
                Ok(counters) => return Ok(counters),
                Err(Failure::Store(error)) => retry.wait(error).await?,
                Err(Failure::Settings(error)) => return Err(error),
            }
        }
    }

    /// Like [`build`](Self::build), but only waits for a few seconds. If the store does not respond, a
    /// mismatch will be reported in the health status. Without the option of a store, the caller reports who does not
    /// respond.
    ///
    /// # Errors
    ///
    /// Returns an error if the store uses different buckets and `--change-grid` is not set.
    pub(crate) async fn build_with_timeout(
        &self,
        builder: Builder,
        store: Option<&str>,
    ) -> Result<Counters, Box<dyn Error>> {
        let error = match timeout(START_TIMEOUT, self.try_build(builder.clone())).await {
            Ok(Ok(counters)) => return Ok(counters),
            Ok(Err(Failure::Settings(error))) => return Err(error),
            Ok(Err(Failure::Store(error))) => error,
            Err(_) => counter_core::Error::new(ErrorKind::Unavailable),
        };
        if let Some(store) = store {
            let reason = explain(&Problem::new(store, error));
            tracing::warn!("{reason}; starting without checking the buckets, and hits wait for the store");
        }
        Ok(self.configure(builder, self.local_days()?)?.build()?)
    }

    async fn try_build(&self, builder: Builder) -> Result<Counters, Failure> {
        let days = self.local_days()?;
        let builder = self.configure(builder, days.clone())?;
        if (self.utc_offset.is_none() || days.is_some()) && !(self.change_grid && days.is_some()) {
            let counters = builder.grid_of_store().await?.build().map_err(Box::from)?;
            let stats = counters.stats();
            match days {
                Some(days) if !days.are_kept_in(stats.grid()) => {
                    tracing::warn!("the store does not keep the days of the time zone. {TIME_ZONE_REMEDY}");
                }
                None if has_several_days(stats.grid()) => {
                    tracing::warn!(
                        "the store has the days of a time zone: with the same --time-zone, visitors are not counted \
                         twice after midnight"
                    );
                }
                _ => {}
            }
            return Ok(counters);
        }
        let counters = builder.build().map_err(Box::from)?;
        match counters.stats().grid_mismatch().await? {
            None => {}
            Some(_) if self.change_grid => counters.change_grid().await?,
            Some(mismatch) => {
                let remedy = "omit --utc-offset to use the buckets of the store, or start the site with --change-grid to change \
                              them: counts in other buckets will not be shown any more";
                return Err(Failure::Settings(format!("--utc-offset: {mismatch}; {remedy}").into()));
            }
        }
        Ok(counters)
    }

    /// Returns the days of the time zone.
    ///
    /// # Errors
    ///
    /// Returns an error if the time zone does not exist.
    pub(crate) fn local_days(&self) -> Result<Option<LocalDays>, Box<dyn Error>> {
        Ok(self.time_zone.as_deref().map(counter_admin::local_days).transpose()?)
    }

    fn configure(&self, builder: Builder, days: Option<LocalDays>) -> Result<Builder, Box<dyn Error>> {
        Ok(match days {
            Some(days) => builder.local_days(days)?,
            None => builder.utc_offset(self.utc_offset.unwrap_or(0)),
        })
    }
}

/// Checks that a time zone exists.
fn time_zone(name: &str) -> Result<String, String> {
    match counter_admin::local_days(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(_) if name.starts_with(['+', '-']) => Err("for a UTC offset, use --utc-offset".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns `true` if these are the days of a time zone with daylight saving time.
fn has_several_days(grid: &Grid) -> bool {
    grid.visitors.iter().filter(|retention| retention.precision.as_seconds() == 86_400).count() > 1
}

/// Returns the UTC offset in seconds of a site with these days.
pub(crate) fn utc_offset(grid: &Grid) -> i32 {
    let day = grid.counts.of_width(86_400).map_or(0, |retention| retention.precision.offset()).cast_signed();
    let ahead = 86_400 - day;
    match day {
        0 => 0,
        _ if ahead < MAX_OFFSET => ahead,
        _ => -day,
    }
}

/// Reason why the counters can't be built.
enum Failure {
    Settings(Box<dyn Error>),
    Store(counter_core::Error),
}

impl From<Box<dyn Error>> for Failure {
    fn from(error: Box<dyn Error>) -> Self {
        Self::Settings(error)
    }
}

impl From<counter_core::Error> for Failure {
    fn from(error: counter_core::Error) -> Self {
        Self::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use counter_core::Precisions;

    use super::*;

    #[test]
    fn utc_offset_is_derived_from_the_days() {
        for seconds in [0, 3600, -3600, 19_800, -19_800, 14 * 3600, -9 * 3600] {
            let counts = Precisions::default().utc_offset(seconds);
            assert_eq!(utc_offset(&Grid { counts, ..Grid::default() }), seconds);
        }
    }
}
