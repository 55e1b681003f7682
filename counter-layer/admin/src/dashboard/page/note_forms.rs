//! Forms to add and remove notes, and the submitted data.

use counter_alert::note::Note;
use counter_core::Timestamp;

use crate::access::page::below;
use crate::access::right::{NO_NOTE_FORM, NOTE_FORM};
use crate::dashboard::format::instants;
use crate::dashboard::view::view::View;
use crate::zone::Zone;

/// The forms of a page, for clients that may note.
#[derive(Debug)]
pub(crate) struct NoteForms {
    /// The URL to add a note.
    pub(crate) add: String,
    /// The URL to remove a note.
    pub(crate) remove: String,
    /// The page to return to, relative to the router.
    pub(crate) to: String,
    /// The maximum number of characters in a note.
    pub(crate) max_chars: usize,
}

/// The fields submitted by a form.
#[derive(Debug, Default)]
pub(crate) struct SubmittedForm {
    text: String,
    at: String,
    pub(crate) id: String,
    to: String,
}

impl NoteForms {
    pub(crate) fn of(view: &View) -> Option<Self> {
        (view.client.may_note && view.site.has_notes).then(|| Self {
            add: format!("{}{NOTE_FORM}", view.site.mount),
            remove: format!("{}{NO_NOTE_FORM}", view.site.mount),
            to: view.below(),
            max_chars: Note::MAX_CHARS,
        })
    }
}

impl SubmittedForm {
    pub(crate) fn read(form: &[u8]) -> Self {
        let mut sent = Self::default();
        for (name, value) in form_urlencoded::parse(form) {
            match &*name {
                "text" => sent.text = value.trim().to_owned(),
                "at" => sent.at = value.into_owned(),
                "id" => sent.id = value.into_owned(),
                "to" => sent.to = value.into_owned(),
                _ => {}
            }
        }
        sent
    }

    /// Returns the note to be added, or the reason why the form is invalid.
    pub(crate) fn note(&self, zone: &Zone, now: Timestamp) -> Result<Note, String> {
        let at = match &*self.at {
            "" => now,
            at => instants::submitted(at, zone)
                .ok_or_else(|| format!("{at} is not a time such as 2026-11-23T12:00."))?,
        };
        Note::new(at, &*self.text).map_err(|error| format!("Note not added: {error}."))
    }

    /// Returns the page to return to, relative to the router.
    pub(crate) fn to(&self) -> &str {
        below(&self.to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(form: &str) -> Option<(u64, String)> {
        let sent = SubmittedForm::read(form.as_bytes());
        let note = sent.note(&Zone::default(), Timestamp::from_unix(7)).ok()?;
        Some((note.at().as_unix(), note.text().to_owned()))
    }

    #[test]
    fn forms_create_notes_now_or_at_a_local_time() {
        for (form, expected) in [
            ("text=+Version+1.4+&at=", Some((7, "Version 1.4"))),
            ("text=a&at=2026-11-21T02%3A39", Some((1_795_228_740, "a"))),
            ("text=a&at=2026-11-21T02%3A39%3A05", None),
            ("text=a&at=1795228745", Some((1_795_228_745, "a"))),
            ("text=a&at=2026-11-31T02%3A39", None),
            ("text=a&at=2026-11-21T24%3A00", None),
            ("text=a&at=noon", None),
            ("text=+&at=", None),
            ("at=", None),
            ("%ff", None),
        ] {
            assert_eq!(note(form), expected.map(|(at, text)| (at, text.to_owned())), "{form}");
        }
    }

    #[test]
    fn forms_redirect_below_the_router_only() {
        let to = |to: &str| SubmittedForm::read(format!("to={to}").as_bytes()).to().to_owned();
        assert_eq!((to("%3Fspan%3D30"), to("https%3A%2F%2Fhost%2F")), ("?span=30".to_owned(), String::new()));
    }
}
