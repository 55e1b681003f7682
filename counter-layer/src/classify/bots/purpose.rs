use std::fmt;

/// The purpose for which a [`Bot`](crate::Bot) requests pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Collects texts and images to train models.
    AiTraining,
    /// Reads pages to answer a question or do a task for a person.
    AiAssistant,
    /// Builds the index that an assistant searches.
    AiSearch,
    /// Builds the index of a search engine.
    SearchEngine,
    /// Analyzes links and rankings.
    Seo,
    /// Shows a preview of a link that was shared.
    Preview,
    /// Reads feeds for subscribers.
    FeedReader,
    /// Checks if a site is available, fast and valid.
    Monitoring,
    /// Looks for vulnerabilities and certificates.
    SecurityScanner,
    /// Keeps copies of pages.
    Archive,
    /// A library, tool or browser driver used to write bots.
    Library,
    /// Any other purpose, e.g. advertising or research.
    Other,
}

impl Purpose {
    /// All purposes, in the order of the dashboard.
    pub const ALL: [Self; 12] = [
        Self::AiTraining,
        Self::AiAssistant,
        Self::AiSearch,
        Self::SearchEngine,
        Self::Seo,
        Self::Preview,
        Self::FeedReader,
        Self::Monitoring,
        Self::SecurityScanner,
        Self::Archive,
        Self::Library,
        Self::Other,
    ];

    /// Returns the purpose as text, e.g. `AI training`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AiTraining => "AI training",
            Self::AiAssistant => "AI assistant",
            Self::AiSearch => "AI search",
            Self::SearchEngine => "search engine",
            Self::Seo => "SEO",
            Self::Preview => "preview",
            Self::FeedReader => "feed reader",
            Self::Monitoring => "monitoring",
            Self::SecurityScanner => "security scanner",
            Self::Archive => "archive",
            Self::Library => "library",
            Self::Other => "other",
        }
    }

    /// Returns the purpose with this text.
    pub(super) fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == text)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
