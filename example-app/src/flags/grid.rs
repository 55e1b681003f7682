//! The buckets that are kept: those of the flags, or those of the store.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use counter_core::time::{Grid, Retention};
use counter_core::visits::Builder;
use counter_core::{Counters, Precisions};
use tokio::time::timeout;

use super::clock;
use crate::patience::Patience;

/// The flags about buckets, which are the same for all commands.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Offset of the site's clock from UTC, such as +01:00 or -05:30; days begin at its midnight. Summer time is not followed, unless --time-zone is set. Default: that of the store, and +00:00 for a new one.
    #[arg(long, env, value_parser = clock::utc_offset, allow_hyphen_values = true)]
    utc_offset: Option<i32>,
    /// Time zone of the days of the dashboard, such as Europe/Berlin: they follow summer time, and hours are kept for as long as days. Set --utc-offset to the zone's standard time as well, so that visitors are told apart by nearly the same days.
    #[arg(long, env, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// Replace the buckets of a store that was filled with another --utc-offset or --time-zone. What it has in other buckets is no longer shown; without this flag such a store is refused.
    #[arg(long)]
    change_grid: bool,
}

/// The hours of a day.
const HOURS: NonZeroU32 = NonZeroU32::new(24).expect("not 0");

/// The longest offset ahead of UTC, in seconds.
const MAX_AHEAD: i32 = 15 * 3600;

/// The time for which a server waits for its store at the start. It serves without it.
const START_TIMEOUT: Duration = Duration::from_secs(3);

impl Settings {
    /// Builds counters with the buckets of these flags, or, without them, of the store, which is waited for.
    ///
    /// # Errors
    /// When the store keeps other buckets, or does not answer for a minute.
    pub(crate) async fn build(&self, builder: Builder) -> Result<Counters, Box<dyn Error>> {
        let mut patience = Patience::default();
        loop {
            match self.try_build(builder.clone()).await {
                Ok(counters) => return Ok(counters),
                Err(Failure::Store(error)) => patience.bear(error).await?,
                Err(Failure::Settings(error)) => return Err(error),
            }
        }
    }

    /// Builds counters as [`build`](Self::build) does; if the store does not answer soon, the health says later whether it
    /// keeps other buckets.
    ///
    /// # Errors
    /// When the store keeps other buckets.
    pub(crate) async fn build_in_time(&self, builder: Builder) -> Result<Counters, Box<dyn Error>> {
        match timeout(START_TIMEOUT, self.try_build(builder.clone())).await {
            Ok(Ok(counters)) => Ok(counters),
            Ok(Err(Failure::Settings(error))) => Err(error),
            Ok(Err(Failure::Store(_))) | Err(_) => {
                tracing::warn!("the store does not answer: its buckets are not known yet");
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
                              to use these from now on: what is in other buckets is no longer shown then";
                return Err(Failure::Settings(format!("{mismatch}; {remedy}").into()));
            }
        }
        Ok(counters)
    }

    fn configure(&self, builder: Builder) -> Builder {
        let builder =
            if self.time_zone.is_some() { builder.precisions(with_hours_of_all_days()) } else { builder };
        builder.utc_offset(self.utc_offset.unwrap_or(0))
    }
}

/// Returns by how many seconds the clocks of a site are ahead of UTC whose days are these.
pub(crate) fn utc_offset(grid: &Grid) -> i32 {
    let day = grid.counts.of_width(86_400).map_or(0, |kept| kept.precision.offset()).cast_signed();
    let ahead = 86_400 - day;
    match day {
        0 => 0,
        _ if ahead < MAX_AHEAD => ahead,
        _ => -day,
    }
}

/// The usual precisions, with hours for as long as days: days of a time zone are sums of them.
fn with_hours_of_all_days() -> Precisions {
    let kept = Precisions::default();
    let longer = |kept: Retention| match kept.precision.as_seconds() {
        3600 => Retention { samples: kept.samples.saturating_mul(HOURS), ..kept },
        _ => kept,
    };
    Precisions::new(kept.iter().map(longer)).expect("as many as before")
}

/// The reason why no counters were built.
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
    fn the_offset_of_a_site_is_that_of_its_days() {
        for seconds in [0, 3600, -3600, 19_800, -19_800, 14 * 3600, -9 * 3600] {
            let counts = Precisions::default().utc_offset(seconds);
            assert_eq!(utc_offset(&Grid { counts, ..Grid::default() }), seconds);
        }
    }
}
