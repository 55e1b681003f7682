//! Chart annotations, e.g. for deployments: marks in the chart, and a list.

use counter_core::Timestamp;

use super::canvas::{Canvas, fixed};
use crate::dashboard::format::instants::{self, Style};
use crate::text::digits;
use crate::zone::Zone;

/// An event shown in a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) at: Timestamp,
    pub(crate) kind: AnnotationKind,
    pub(crate) text: String,
}

/// The kind of an annotation, which determines the style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnnotationKind {
    /// A note with this id.
    Note(String),
    /// A raised alert.
    Raised,
    /// A resolved alert.
    Resolved,
}

/// The annotations of a chart, for a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotated {
    pub(crate) marks: Vec<AnnotationMark>,
    /// The latest annotations, sorted by time.
    pub(crate) rows: Vec<AnnotationRow>,
    /// The number of earlier annotations that only have a mark.
    pub(crate) unlisted: Option<String>,
    /// The format name of instants, for the script.
    pub(crate) style: &'static str,
}

/// A vertical line in the middle of a bucket with events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnnotationMark {
    /// The bucket index.
    pub(crate) place: usize,
    pub(crate) x: String,
    pub(crate) percent: String,
    pub(crate) anchor: &'static str,
    /// The row numbers, if there is enough space.
    pub(crate) numbers: Option<String>,
    pub(crate) class: &'static str,
    pub(crate) texts: Vec<String>,
}

/// A listed annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnnotationRow {
    pub(crate) number: usize,
    pub(crate) iso: String,
    pub(crate) time: String,
    pub(crate) text: String,
    /// The note id, if this is a note.
    pub(crate) note: Option<String>,
}

/// The maximum number of listed annotations.
const MAX_LISTED: usize = 20;

/// The minimum distance between numbers, in percent of the width.
const MIN_NUMBER_DISTANCE: f64 = 4.0;

/// Draws sorted annotations, given the bucket starts.
pub(crate) fn annotate(
    annotations: &[Annotation],
    starts: &[Timestamp],
    zone: &Zone,
    now: Timestamp,
) -> Annotated {
    let unlisted = annotations.len().saturating_sub(MAX_LISTED);
    let years = |at: Timestamp| instants::year(zone.local(at));
    let is_of_this_year = annotations.iter().skip(unlisted).all(|one| years(one.at) == years(now));
    let style = if is_of_this_year { Style::Full } else { Style::FullOfYear };
    let row = |(place, one): (usize, &Annotation)| AnnotationRow {
        number: place + 1,
        iso: instants::iso(one.at),
        time: instants::instant(zone.local(one.at), style),
        text: one.text.clone(),
        note: match &one.kind {
            AnnotationKind::Note(id) => Some(id.clone()),
            AnnotationKind::Raised | AnnotationKind::Resolved => None,
        },
    };
    Annotated {
        marks: marks(annotations, starts),
        rows: annotations.iter().enumerate().skip(unlisted).map(row).collect(),
        unlisted: (unlisted > 0).then(|| digits::grouped(unlisted as u64)),
        style: style.name(),
    }
}

/// Returns a mark for each bucket with events.
pub(crate) fn marks(annotations: &[Annotation], starts: &[Timestamp]) -> Vec<AnnotationMark> {
    let canvas = Canvas { buckets: starts.len().max(1), top: 1 };
    let bucket = |one: &Annotation| starts.partition_point(|start| *start <= one.at).checked_sub(1);
    let mut numbered = f64::MIN;
    let mut number = 1;
    let mut marks = Vec::new();
    for group in annotations.chunk_by(|one, other| bucket(one) == bucket(other)) {
        let (first, last) = (number, number + group.len() - 1);
        number = last + 1;
        let Some(place) = bucket(&group[0]) else { continue };
        let percent = canvas.percent(place);
        let has_room = percent - numbered >= MIN_NUMBER_DISTANCE;
        if has_room {
            numbered = percent;
        }
        let numbers = if first == last { first.to_string() } else { format!("{first}–{last}") };
        marks.push(AnnotationMark {
            place,
            x: fixed(canvas.middle(place)),
            percent: fixed(percent),
            anchor: canvas.anchor(place),
            numbers: has_room.then_some(numbers),
            class: most_severe(group).class(),
            texts: group.iter().map(|one| one.text.clone()).collect(),
        });
    }
    marks
}

/// Returns the kind that determines the style of a mark. Alerts should not be hidden by notes.
fn most_severe(group: &[Annotation]) -> &AnnotationKind {
    let raised = group.iter().find(|one| one.kind == AnnotationKind::Raised);
    &raised.unwrap_or(&group[0]).kind
}

impl AnnotationKind {
    /// Returns the CSS class.
    const fn class(&self) -> &'static str {
        match self {
            Self::Note(_) => "note",
            Self::Raised => "raised",
            Self::Resolved => "resolved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::{now, starts};
    use super::*;

    fn note(seconds: u64, text: &str) -> Annotation {
        Annotation {
            at: now().plus(seconds),
            kind: AnnotationKind::Note(text.to_owned()),
            text: text.to_owned(),
        }
    }

    #[test]
    fn events_in_a_bucket_share_a_mark_in_the_middle() {
        let annotations = [note(0, "a"), note(59, "b"), note(60, "c"), note(210, "d")];
        let marks = marks(&annotations, &starts(4));
        let found: Vec<_> = marks
            .iter()
            .map(|mark| (mark.x.as_str(), mark.numbers.as_deref(), mark.texts.join(" ")))
            .collect();
        let expected = [("125", Some("1–2"), "a b"), ("375", Some("3"), "c"), ("875", Some("4"), "d")];
        assert_eq!(found, expected.map(|(x, numbers, texts)| (x, numbers, texts.to_owned())));
    }

    #[test]
    fn events_before_the_chart_have_no_mark() {
        let early = Annotation { at: now().minus(1), ..note(0, "early") };
        assert_eq!(marks(&[early, note(0, "a")], &starts(4)).len(), 1);
        assert!(marks(&[note(0, "a")], &[]).is_empty());
    }

    #[test]
    fn numbers_keep_a_distance_and_the_latest_events_are_listed() {
        let many: Vec<_> = (0..100).map(|minute| note(60 * minute, "a")).collect();
        let annotated = annotate(&many, &starts(100), &Zone::default(), now());
        assert_eq!(annotated.marks.len(), 100);
        assert_eq!(annotated.marks.iter().filter(|mark| mark.numbers.is_some()).count(), 25);
        let numbers: Vec<_> = annotated.rows.iter().map(|row| row.number).collect();
        assert_eq!((numbers, annotated.unlisted.as_deref()), ((81..=100).collect(), Some("80")));
        assert_eq!(annotated.rows[0].time, "21 Nov 03:59");
        let next_year = now().plus(60 * 86_400);
        let annotated = annotate(&many[..1], &starts(1), &Zone::default(), next_year);
        assert_eq!(annotated.rows[0].time, "21 Nov 2026 02:39");
    }
}
