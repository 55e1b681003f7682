use std::fmt::{self, Write};
use std::num::NonZeroU32;

use crate::time::{Grid, Precision, Precisions, Retention};

/// A difference between the configured grid and the stored grid.
///
/// A wrong grid will hide the counts in buckets that it doesn't contain, and a cleaner will remove counts
/// according to its own retention. You should either use the stored grid
/// ([`Builder::grid_of_store`](crate::Builder::grid_of_store)) or replace it
/// ([`Counters::change_grid`](crate::Counters::change_grid)).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GridMismatch {
    /// The grid in the store.
    pub stored: Grid,
    /// The configured grid.
    pub configured: Grid,
}

impl GridMismatch {
    /// Compares the stored grid to the configured grid. Distributions are only compared if both grids have
    /// them, because counters without distributions do not measure anything.
    pub(crate) fn between(stored: &Grid, configured: &Grid) -> Option<Self> {
        let measures = match (&stored.distributions, &configured.distributions) {
            (Some(stored), Some(configured)) => stored == configured,
            _ => true,
        };
        let agree = stored.counts == configured.counts && stored.visitors == configured.visitors && measures;
        (!agree).then(|| Self { stored: stored.clone(), configured: configured.clone() })
    }

    /// Returns the precisions of both grids by name. Distributions are `None` if one of the grids lacks them.
    fn sets(&self) -> [(&'static str, Option<(&Precisions, &Precisions)>); 3] {
        let Self { stored, configured } = self;
        let distributions = stored.distributions.as_ref().zip(configured.distributions.as_ref());
        [
            ("counts", Some((&stored.counts, &configured.counts))),
            ("visitors", Some((&stored.visitors, &configured.visitors))),
            ("distributions", distributions),
        ]
    }
}

impl fmt::Display for GridMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stored grid differs from the configured grid:")?;
        let mut separator = ' ';
        for (name, sets) in self.sets() {
            let Some((stored, configured)) = sets.filter(|(stored, configured)| stored != configured) else {
                continue;
            };
            let (only_stored, only_configured) = (only_in(stored, configured), only_in(configured, stored));
            write!(f, "{separator}{name}: stored {only_stored}, configured {only_configured}")?;
            separator = ';';
        }
        Ok(())
    }
}

impl std::error::Error for GridMismatch {}

crate::log::debug::debug_in_full!(GridMismatch);

/// Lists the precisions of a set which are missing from `other`, or have a different retention.
fn only_in(set: &Precisions, other: &Precisions) -> String {
    let only = set.iter().filter(|retained| other.retention(retained.precision) != Some(*retained));
    let listed: Vec<_> =
        only.map(|retention| format!("{} samples of {}", retention.samples, retention.precision)).collect();
    if listed.is_empty() { "no other precisions".to_owned() } else { listed.join(" and ") }
}

/// Writes a grid as lines of a record.
pub(crate) fn write(grid: &Grid, text: &mut String) {
    let sets = [
        ("counts", Some(&grid.counts)),
        ("visitors", Some(&grid.visitors)),
        ("distributions", grid.distributions.as_ref()),
    ];
    for (name, set) in sets {
        let Some(set) = set else { continue };
        let retained = |retention: Retention| format!("{}:{}", retention.precision, retention.samples);
        let _ = writeln!(text, "{name} {}", set.iter().map(retained).collect::<Vec<_>>().join(","));
    }
}

/// Parses a set of precisions written by [`write()`], such as `60:120,3600:2880`.
pub(crate) fn precisions(text: &str) -> Option<Precisions> {
    let retention = |text: &str| {
        let (precision, samples) = text.split_once(':')?;
        Some(Retention {
            precision: precision.parse::<Precision>().ok()?,
            samples: samples.parse::<NonZeroU32>().ok()?,
        })
    };
    Precisions::new(text.split(',').map(retention).collect::<Option<Vec<_>>>()?).ok()
}
