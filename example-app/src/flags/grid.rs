//! Bucket settings, either from the command line or from the store.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use counter_core::time::{Grid, Retention};
use counter_core::visits::Builder;
use counter_core::{Counters, Precisions};
use tokio::time::timeout;

use super::clock;
use crate::retry::Retry;

/// Bucket options, which are the same for all commands.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Store")]
pub(crate) struct Settings {
    /// UTC offset of days, e.g. +01:00 or -05:30.
    #[arg(long, env = "COUNTER_UTC_OFFSET", value_name = "OFFSET", value_parser = clock::utc_offset, allow_hyphen_values = true)]
    utc_offset: Option<i32>,
    /// Time zone of the dashboard, e.g. Europe/Berlin.
    #[arg(long, env = "COUNTER_TIME_ZONE", value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// Change the buckets, and hide older counts.
    #[arg(long)]
    change_grid: bool,
}

/// Hours per day.
const HOURS_PER_DAY: NonZeroU32 = NonZeroU32::new(24).expect("not 0");

/// Upper bound for UTC offsets in seconds.
const MAX_OFFSET: i32 = 15 * 3600;

/// Time to wait for the store at startup. After this, the server starts without it.
const START_TIMEOUT: Duration = Duration::from_secs(3);

impl Settings {
    /// Builds counters with the buckets of these options. If no option is set, the buckets of the store are
    /// used. This waits for the store to become available.
    ///
    /// # Errors
    ///
    /// Returns an error if the store uses different buckets and `--change-grid` is not set, or if it does not
    /// respond for a minute.
    pub(crate) async fn build(&self, builder: Builder) -> Result<Counters, Box<dyn Error>> {
        let mut retry = Retry::default();
        loop {
            match self.try_build(builder.clone()).await {
                Ok(counters) => return Ok(counters),
                Err(Failure::Store(error)) => retry.wait(error).await?,
                Err(Failure::Settings(error)) => return Err(error),
            }
        }
    }

    /// Like [`build`](Self::build), but only waits for a few seconds. If the store does not respond, a
    /// mismatch will be reported in the health status.
    ///
    /// # Errors
    ///
    /// Returns an error if the store uses different buckets and `--change-grid` is not set.
    pub(crate) async fn build_with_timeout(&self, builder: Builder) -> Result<Counters, Box<dyn Error>> {
        match timeout(START_TIMEOUT, self.try_build(builder.clone())).await {
            Ok(Ok(counters)) => Ok(counters),
            Ok(Err(Failure::Settings(error))) => Err(error),
            Ok(Err(Failure::Store(_))) | Err(_) => {
                tracing::warn!("the store does not respond, starting without checking its buckets");
                Ok(self.configure(builder).build()?)
            }
        }
    }

    async fn try_build(&self, builder: Builder) -> Result<Counters, Failure> {
        if self.utc_offset.is_none() && self.time_zone.is_none() {
            return Ok(builder.grid_of_store().await?.build().map_err(Box::from)?);
        }
        let counters = self.configure(builder).build().map_err(Box::from)?;
        match counters.stats().grid_mismatch().await? {
            None => {}
            Some(_) if self.change_grid => counters.change_grid().await?,
            Some(mismatch) => {
                let remedy = "omit --utc-offset and --time-zone to use the buckets of the store, or add --change-grid \
                              to change them: counts in other buckets will not be shown any more";
                return Err(Failure::Settings(format!("{mismatch}; {remedy}").into()));
            }
        }
        Ok(counters)
    }

    fn configure(&self, builder: Builder) -> Builder {
        let builder =
            if self.time_zone.is_some() { builder.precisions(with_hours_for_all_days()) } else { builder };
        builder.utc_offset(self.utc_offset.unwrap_or(0))
    }
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

/// Returns the default precisions, but keeps hours for as long as days. This is needed because the days of a
/// time zone are sums of hours.
fn with_hours_for_all_days() -> Precisions {
    let retained = Precisions::default();
    let longer = |retention: Retention| match retention.precision.as_seconds() {
        3600 => Retention { samples: retention.samples.saturating_mul(HOURS_PER_DAY), ..retention },
        _ => retention,
    };
    Precisions::new(retained.iter().map(longer)).expect("the number of precisions does not change")
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
    use super::*;

    #[test]
    fn utc_offset_is_derived_from_the_days() {
        for seconds in [0, 3600, -3600, 19_800, -19_800, 14 * 3600, -9 * 3600] {
            let counts = Precisions::default().utc_offset(seconds);
            assert_eq!(utc_offset(&Grid { counts, ..Grid::default() }), seconds);
        }
    }
}
