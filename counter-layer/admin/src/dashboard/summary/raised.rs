//! The banner for raised alerts.

use counter_alert::RuleStatus;
use counter_core::Error;

use crate::dashboard::reader::Reader;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The banner, shown while any alert is firing, unless the rule is muted.
#[derive(Debug)]
pub(crate) struct Raised {
    /// The URL of the alerts page.
    pub(crate) address: String,
    pub(crate) text: String,
}

/// The maximum number of rules named in the banner.
const MAX_NAMED_RULES: usize = 3;

impl Raised {
    pub(crate) async fn read(reader: &Reader<'_>, view: &View) -> Result<Option<Self>, Error> {
        let (Some(known), Some(address)) = (reader.alerts().await?, view.alerts()) else { return Ok(None) };
        let is_loud = |rule: &&RuleStatus| rule.raised.is_some() && rule.silenced.is_none();
        let raised: Vec<_> = known.rules.iter().filter(is_loud).map(|rule| rule.name.as_str()).collect();
        let head = match raised.len() {
            0 => return Ok(None),
            1 => "An alert is firing".to_owned(),
            all => format!("{} alerts are firing", digits::grouped(all as u64)),
        };
        let more = match raised.len().saturating_sub(MAX_NAMED_RULES) {
            0 => String::new(),
            more => format!(" and {} more", digits::grouped(more as u64)),
        };
        let named = raised.iter().take(MAX_NAMED_RULES).copied().collect::<Vec<_>>().join(", ");
        Ok(Some(Self { address, text: format!("{head}: {named}{more}") }))
    }
}
