use super::purpose::Purpose;

/// A known bot, as counted by [`Label::bot`](crate::Label::bot).
///
/// ```
/// use counter_layer::{Bot, Purpose};
///
/// let bot = Bot::named("GPTBot").expect("a known bot");
/// assert_eq!(bot.operator(), Some("OpenAI"));
/// assert_eq!(bot.purpose(), Purpose::AiTraining);
/// assert_eq!(bot.purpose().to_string(), "AI training");
///
/// assert!(Bot::named("Firefox").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bot {
    name: &'static str,
    operator: &'static str,
    purpose: Purpose,
}

/// A bot in the table, with words separated by commas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) bot: Bot,
    pub(super) words: &'static str,
}

/// The known bots, by purpose. The format is described in the file.
const TABLE: &str = include_str!("bots.txt");

impl Bot {
    /// Returns the bot with this name, e.g. `GPTBot`.
    ///
    /// This reads the table, so it takes some microseconds. Use [`all`](Self::all) to look up many names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|bot| bot.name == name)
    }

    /// Returns all known bots.
    pub fn all() -> impl Iterator<Item = Self> {
        rows().map(|row| row.bot)
    }

    /// Returns the name, which is the value of the label.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the company, project or person that operates or publishes the bot, if known.
    #[must_use]
    pub fn operator(&self) -> Option<&'static str> {
        Some(self.operator).filter(|operator| !operator.is_empty())
    }

    /// Returns the purpose.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        self.purpose
    }
}

/// Returns the rows of the table.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    let mut purpose = Purpose::Other;
    TABLE.lines().filter_map(move |line| {
        let group = line.strip_prefix('[').and_then(|group| group.strip_suffix(']'));
        if let Some(group) = group {
            purpose = Purpose::named(group).expect("a purpose");
            return None;
        }
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let mut columns = line.split('|').map(str::trim);
        let name = columns.next().unwrap_or_default();
        let operator = columns.next().unwrap_or_default();
        Some(Row { bot: Bot { name, operator, purpose }, words: columns.next().unwrap_or(name) })
    })
}
