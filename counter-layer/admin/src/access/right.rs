use http::Method;
use http::request::Parts;

use super::signed::link;

/// The changes that a client may make. All clients with access may read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) forget: bool,
    pub(crate) record: bool,
    pub(crate) repair: bool,
    pub(crate) silence: bool,
    pub(crate) note: bool,
}

/// A right to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Forget,
    Record,
    Repair,
    Silence,
    Note,
}

/// The path for hits from other programs.
pub(crate) const HITS: &str = "/api/hits";
/// The path to audit an archive.
pub(crate) const AUDIT: &str = "/api/audit";
/// The API path to silence a rule.
pub(crate) const SILENCE: &str = "/api/alerts/silence";
/// The API path to add and remove rules.
pub(crate) const RULES: &str = "/api/alerts/rules";
/// The API path to send a test message.
pub(crate) const TEST: &str = "/api/alerts/test";
/// The path of the form to silence a rule.
pub(crate) const SILENCE_FORM: &str = "/alerts/silence";
/// The path of the form to add a rule.
pub(crate) const RULE_FORM: &str = "/alerts/rules";
/// The path of the form to remove a rule.
pub(crate) const NO_RULE_FORM: &str = "/alerts/rules/remove";
/// The path of the form to send a test message.
pub(crate) const TEST_FORM: &str = "/alerts/test";
/// The API path to list, add and remove notes.
pub(crate) const NOTES: &str = "/api/notes";
/// The API path to list, mark and remove goals.
pub(crate) const GOALS: &str = "/api/goals";
/// The path of the form to add a note.
pub(crate) const NOTE_FORM: &str = "/notes";
/// The path of the form to remove a note.
pub(crate) const NO_NOTE_FORM: &str = "/notes/remove";
/// The path of the form to mark a goal.
pub(crate) const GOAL_FORM: &str = "/goals";
/// The path of the form to remove a goal.
pub(crate) const NO_GOAL_FORM: &str = "/goals/remove";
/// The path of the form to ignore a browser.
pub(crate) const IGNORE_FORM: &str = "/ignore";

impl Rights {
    pub(crate) const fn has(self, right: Right) -> bool {
        match right {
            Right::Forget => self.forget,
            Right::Record => self.record,
            Right::Repair => self.repair,
            Right::Silence => self.silence,
            Right::Note => self.note,
        }
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.forget |= other.forget;
        self.record |= other.record;
        self.repair |= other.repair;
        self.silence |= other.silence;
        self.note |= other.note;
    }
}

impl Right {
    /// Returns the right that a request needs if it changes something, or `None` if access is enough.
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        if link::is_change(parts) {
            return None;
        }
        Some(match (&parts.method, parts.uri.path()) {
            // This only sets a cookie.
            (&Method::POST, IGNORE_FORM) => return None,
            (&Method::POST, HITS) => Self::Record,
            (&Method::POST, AUDIT) => Self::Repair,
            (&Method::POST | &Method::DELETE, RULES)
            | (&Method::POST, SILENCE | TEST | SILENCE_FORM | TEST_FORM | RULE_FORM | NO_RULE_FORM) => {
                Self::Silence
            }
            (&Method::POST | &Method::DELETE, NOTES | GOALS)
            | (&Method::POST, NOTE_FORM | NO_NOTE_FORM | GOAL_FORM | NO_GOAL_FORM) => Self::Note,
            _ => Self::Forget,
        })
    }

    /// Returns the challenge with the missing scope (RFC 6750, section 3).
    pub(crate) const fn scope(self) -> &'static str {
        match self {
            Self::Forget => "Bearer error=\"insufficient_scope\", scope=\"forget\"",
            Self::Record => "Bearer error=\"insufficient_scope\", scope=\"record\"",
            Self::Repair => "Bearer error=\"insufficient_scope\", scope=\"repair\"",
            Self::Silence => "Bearer error=\"insufficient_scope\", scope=\"silence\"",
            Self::Note => "Bearer error=\"insufficient_scope\", scope=\"note\"",
        }
    }

    /// Returns a description of the right.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Forget => "forget counters",
            Self::Record => "send hits",
            Self::Repair => "audit and repair the archive",
            Self::Silence => "add, remove or silence rules, or send a test",
            Self::Note => "change notes and goals",
        }
    }
}
