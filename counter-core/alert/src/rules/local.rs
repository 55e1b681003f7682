//! Conditions on this process, such as its connection to the store. Other processes can't evaluate these.

use std::fmt;
use std::time::Duration;

use counter_core::fleet::Site;
use counter_core::visits::source::SourceStatus;
use counter_core::visits::{Health, Stats};

use super::unit::Unit;
use super::verdict::Verdict;

/// The condition of a process rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LocalCondition {
    /// All flushes have failed, hits have been pending without being sent, or a site of a fleet could not be
    /// read, for longer than this.
    StoreAway(Duration),
    /// The process has more pending hits than this.
    Pending(u64),
    /// The process clock and the store clock differ by more than this, in seconds.
    ClockSkew(u64),
    /// A source of visits, e.g. a log or a topic, has more uncounted positions than this.
    SourceBehind(u64),
    /// An audit has found values where the archive has more than the near store.
    ArchiveDiffers,
}

impl LocalCondition {
    pub(crate) fn evaluate(&self, stats: &Stats) -> Option<Verdict> {
        self.of(stats.health(), stats.sources(), stats.sites())
    }

    fn of(&self, health: Health, sources: Vec<SourceStatus>, sites: &[Site]) -> Option<Verdict> {
        let (value, bound, label) = match self {
            Self::StoreAway(bound) => {
                let unavailable_for = health.failing_for.max(health.stalled_for).unwrap_or_default();
                let own = (unavailable_for, health.last_error);
                let site = |site: &Site| {
                    let reason = site.failure()?;
                    Some((site.failing_for()?, Some(format!("site {}: {reason}", site.name()))))
                };
                let all = sites.iter().filter_map(site).chain([own]);
                let (longest, label) = all.max_by_key(|(time, _)| *time)?;
                (longest.as_secs_f64(), bound.as_secs_f64(), label)
            }
            Self::Pending(bound) => (health.pending as f64, *bound as f64, None),
            Self::ClockSkew(bound) => (health.clock_skew?.unsigned_abs() as f64, *bound as f64, None),
            Self::SourceBehind(bound) => {
                let behind = |end: u64, counted: u64| end.saturating_sub(counted);
                let known = sources.into_iter().filter_map(|of| Some((behind(of.end?, of.counted), of.name)));
                let (behind, name) = known.max_by_key(|(behind, _)| *behind)?;
                (behind as f64, *bound as f64, Some(name.to_string()))
            }
            Self::ArchiveDiffers => (health.archive?.differing? as f64, 0.0, None),
        };
        Some(Verdict { label, ..Verdict::new(value > bound, value, bound) })
    }

    /// Returns the value unit.
    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::StoreAway(_) | Self::ClockSkew(_) => Unit::Seconds,
            Self::Pending(_) => Unit::Hits,
            Self::SourceBehind(_) | Self::ArchiveDiffers => Unit::Count,
        }
    }

    /// Explains a verdict in a sentence.
    pub(crate) fn explain(&self, verdict: &Verdict) -> String {
        let Verdict { is_met, value, bound, .. } = *verdict;
        let label = verdict.label.as_deref().unwrap_or_default();
        let direction = if is_met { "above" } else { "no longer above" };
        match self {
            Self::StoreAway(_) if is_met && label.starts_with("site ") => {
                format!("a site cannot be read for {value:.0} s, so its counts are missing: {label}")
            }
            Self::StoreAway(_) if is_met => {
                format!("the store has not accepted hits for {value:.0} s: {label}")
            }
            Self::StoreAway(_) => "the store is available again".to_owned(),
            Self::Pending(_) => format!("{value} hits are waiting for the store, {direction} {bound}"),
            Self::ClockSkew(_) => format!("the clock is off by {value} s, {direction} {bound} s"),
            Self::SourceBehind(_) => {
                format!("{value} positions of {label} are not counted, {direction} {bound}")
            }
            Self::ArchiveDiffers if is_met => format!("{value} values differ between store and archive"),
            Self::ArchiveDiffers => "store and archive agree again".to_owned(),
        }
    }
}

/// Writes the condition of a process rule as text for people.
impl fmt::Display for LocalCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoreAway(time) => {
                write!(f, "the store or a site has been unavailable for {} s", time.as_secs_f64())
            }
            Self::Pending(hits) => write!(f, "more than {hits} hits are waiting for the store"),
            Self::ClockSkew(seconds) => write!(f, "the clock is off by more than {seconds} s"),
            Self::SourceBehind(count) => write!(f, "more than {count} positions of a source are not counted"),
            Self::ArchiveDiffers => f.write_str("values differ between store and archive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counter_core::visits::ArchiveHealth;

    fn explanation(condition: &LocalCondition, health: Health) -> Option<String> {
        condition.of(health, Vec::new(), &[]).map(|verdict| condition.explain(&verdict))
    }

    #[test]
    fn clock_skew_is_detected_in_both_directions_and_ignored_if_unknown() {
        let skew = |seconds| {
            let mut health = Health::default();
            health.clock_skew = seconds;
            health
        };
        let condition = LocalCondition::ClockSkew(5);
        assert_eq!(explanation(&condition, skew(None)), None);
        assert_eq!(
            explanation(&condition, skew(Some(-6))).as_deref(),
            Some("the clock is off by 6 s, above 5 s")
        );
        assert_eq!(
            explanation(&condition, skew(Some(5))).as_deref(),
            Some("the clock is off by 5 s, no longer above 5 s")
        );
    }

    #[test]
    fn archive_differences_come_from_the_latest_audit() {
        let audit = |differing| {
            let (mut health, mut archive) = (Health::default(), ArchiveHealth::default());
            archive.differing = differing;
            health.archive = Some(archive);
            explanation(&LocalCondition::ArchiveDiffers, health)
        };
        assert_eq!(explanation(&LocalCondition::ArchiveDiffers, Health::default()), None);
        assert_eq!(audit(None), None);
        assert_eq!(audit(Some(3)).as_deref(), Some("3 values differ between store and archive"));
        assert_eq!(audit(Some(0)).as_deref(), Some("store and archive agree again"));
    }
}
