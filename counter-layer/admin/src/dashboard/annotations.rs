//! Chart annotations from all available sources.

use std::ops::Range;

use counter_alert::goal::Goals;
use counter_alert::note::{Note, Notes};
use counter_alert::{Alert, AlertKind, Alerts, AlertsStatus};
use counter_core::{CounterName, Error, Timestamp};

use super::chart::annotations::{Annotation, AnnotationKind};

/// The sources of annotations, and the goals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotators {
    pub(crate) notes: Option<Notes>,
    pub(crate) alerts: Option<Alerts>,
    pub(crate) goals: Option<Goals>,
}

impl Annotators {
    /// Returns `true` if the alerts page exists.
    pub(crate) const fn has_alerts(&self) -> bool {
        self.alerts.is_some()
    }

    /// Reads the notes in a range.
    pub(crate) async fn notes(&self, range: Range<Timestamp>) -> Result<Vec<Annotation>, Error> {
        let Some(notes) = &self.notes else { return Ok(Vec::new()) };
        let annotation = |note: Note| Annotation {
            at: note.at(),
            kind: AnnotationKind::Note(note.id().to_owned()),
            text: note.text().to_owned(),
        };
        Ok(notes.list(range).await?.into_iter().map(annotation).collect())
    }
}

/// Returns the alerts in a range that concern any of the given counters.
pub(crate) fn alerts(
    known: &AlertsStatus,
    counters: &[CounterName],
    range: &Range<Timestamp>,
) -> Vec<Annotation> {
    let concerns = |name: &str| {
        let rule = known.rules.iter().find(|rule| rule.name == name);
        rule.is_some_and(|rule| rule.counters.iter().any(|counter| counters.contains(counter)))
    };
    let alerts = known.history.iter().map(|entry| &entry.alert).filter(|alert| concerns(&alert.rule));
    let annotation = |alert: &Alert| {
        let (kind, word) = match alert.kind {
            AlertKind::Raised => (AnnotationKind::Raised, "raised"),
            AlertKind::Resolved => (AnnotationKind::Resolved, "resolved"),
            _ => return None,
        };
        let text = format!("{} {word}: {}", alert.rule, alert.reason);
        Some(Annotation { at: Timestamp::from_unix(alert.start), kind, text })
    };
    alerts.filter_map(annotation).filter(|annotation| range.contains(&annotation.at)).collect()
}
