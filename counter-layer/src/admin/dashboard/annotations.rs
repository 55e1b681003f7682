//! Annotations of charts: what happened in their time, wherever that is known from.

use std::ops::Range;

#[cfg(feature = "note")]
use counter_core::note::Notes;
use counter_core::{Error, Timestamp};

use super::chart::Annotation;
#[cfg(feature = "note")]
use super::chart::AnnotationKind;

/// The places that annotations come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotators {
    #[cfg(feature = "note")]
    pub(crate) notes: Option<Notes>,
}

impl Annotators {
    /// Reads what happened in a range, ascending.
    #[cfg_attr(not(feature = "note"), allow(unused_variables, reason = "there are none without a feature"))]
    pub(super) async fn read(&self, range: Range<Timestamp>) -> Result<Vec<Annotation>, Error> {
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
