//! Forms to add and remove notes.

use counter_alert::note::Note;
use counter_core::Timestamp;

use crate::access::form::Form;
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

/// Returns the note of a form, or the reason why the form is invalid.
pub(crate) fn submitted(form: &Form, zone: &Zone, now: Timestamp) -> Result<Note, String> {
    let at = match form.field("at") {
        "" => now,
        at => instants::submitted(at, zone)
            .ok_or_else(|| format!("{at} is not a time such as 2026-11-23T12:00."))?,
    };
    Note::new(at, form.field("text").trim()).map_err(|error| format!("Note not added: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(form: &str) -> Option<(u64, String)> {
        let form = Form::parse(form.as_bytes());
        let note = submitted(&form, &Zone::default(), Timestamp::from_unix(7)).ok()?;
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
        let to = |to: &str| Form::parse(format!("to={to}").as_bytes()).to().to_owned();
        assert_eq!((to("%3Fspan%3D30"), to("https%3A%2F%2Fhost%2F")), ("?span=30".to_owned(), String::new()));
    }
}
