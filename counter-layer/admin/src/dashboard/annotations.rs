//! Annotations of charts: what happened in their time, wherever that is known from.

use std::ops::Range;

#[cfg(feature = "alert")]
use counter_core::CounterName;
#[cfg(feature = "alert")]
use counter_core::alert::{AlertKind, Alerts, AlertsStatus};
#[cfg(feature = "note")]
use counter_core::note::Notes;
use counter_core::{Error, Timestamp};

use super::chart::Annotation;
#[cfg(any(feature = "alert", feature = "note"))]
use super::chart::AnnotationKind;

/// The places that annotations come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotators {
    #[cfg(feature = "note")]
    pub(crate) notes: Option<Notes>,
    #[cfg(feature = "alert")]
    pub(crate) alerts: Option<Alerts>,
}

impl Annotators {
    /// Returns `true` if there is a page of alerts.
    #[cfg_attr(
        not(feature = "alert"),
        allow(clippy::unused_self, reason = "there are none without the feature")
    )]
    pub(super) const fn has_alerts(&self) -> bool {
        #[cfg(feature = "alert")]
        return self.alerts.is_some();
        #[cfg(not(feature = "alert"))]
        false
    }

    /// Reads the notes about a range.
    #[cfg_attr(not(feature = "note"), allow(unused_variables, reason = "there are none without the feature"))]
    pub(super) async fn notes(&self, range: Range<Timestamp>) -> Result<Vec<Annotation>, Error> {
        #[cfg(feature = "note")]
        if let Some(notes) = &self.notes {
            let notes = notes.list(range).await?.into_iter();
            let annotation = |note: counter_core::note::Note| Annotation {
                at: note.at(),
                kind: AnnotationKind::Note(note.id().to_owned()),
                text: note.text().to_owned(),
            };
            return Ok(notes.map(annotation).collect());
        }
        Ok(Vec::new())
    }
}

/// Returns the alerts of a range that are about one of these counters.
#[cfg(feature = "alert")]
pub(super) fn alerts(
    known: &AlertsStatus,
    counters: &[CounterName],
    range: &Range<Timestamp>,
) -> Vec<Annotation> {
    let looks_at = |name: &str| {
        let rule = known.rules.iter().find(|rule| rule.name == name);
        rule.is_some_and(|rule| rule.counters.iter().any(|counter| counters.contains(counter)))
    };
    let alerts = known.history.iter().map(|entry| &entry.alert).filter(|alert| looks_at(&alert.rule));
    let annotation = |alert: &counter_core::alert::Alert| {
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
