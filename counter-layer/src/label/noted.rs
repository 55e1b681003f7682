use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::visits::{Agent, LabelError, LabelValues, NotedValue};
use counter_core::{Counter, Recorder, Timestamp};
use http::header::USER_AGENT;

use super::Label;
use super::client::{Client, Words};
use super::missing::MissingHead;
use super::source::{Source, header};
use super::text::Text;
use super::value::Value;
use crate::identity::RequestHead;
use crate::request::logged::Logged;

/// The labels of a layer and their counters.
pub(crate) struct Labels {
    /// Labels of missing pages are last.
    labels: Vec<(LabelValues, Source)>,
    /// Number of labels that count all requests.
    always: usize,
    words: Option<Words>,
}

impl Labels {
    /// Resolves the labels, or returns `None` if the iterator is empty. If a name is used again, the later
    /// label wins.
    pub(crate) fn of(
        recorder: &Recorder,
        chosen: impl IntoIterator<Item = Label>,
    ) -> Result<Option<Arc<Self>>, LabelError> {
        let mut by_name = Vec::<Label>::new();
        for label in chosen {
            by_name.retain(|other| other.name != label.name);
            by_name.push(label);
        }
        let needs_words =
            by_name.iter().any(|label| matches!(label.source, Source::Device | Source::Browser));
        let is_missing = |label: &Label| matches!(label.source, Source::Missing(_));
        by_name.sort_by_key(is_missing);
        let always = by_name.iter().filter(|label| !is_missing(label)).count();
        let bound = by_name.into_iter().map(|label| {
            let is_guarded = is_missing(&label) || label.min_hits > NonZeroU32::MIN;
            let mut values = recorder.label_values(&label.name)?;
            if is_guarded {
                values = values.min_hits(label.min_hits);
            }
            Ok((if label.by_page { values.by_page() } else { values }, label.source))
        });
        let labels = bound.collect::<Result<Vec<_>, LabelError>>()?;
        let words = needs_words.then(Words::default);
        Ok((!labels.is_empty()).then(|| Arc::new(Self { labels, always, words })))
    }

    /// Notes the label values of a request that is read from a log, or made now if `None`.
    #[inline]
    pub(crate) fn note(
        &self,
        head: &RequestHead<'_>,
        agent: Agent,
        logged: Option<&Logged<'_>>,
        weight: NonZeroU32,
        noted: &mut Vec<NotedValue>,
    ) {
        let client = self.words.as_ref().map(|words| words.client(header(head, &USER_AGENT), agent));
        for (values, source) in &self.labels[..self.always] {
            let known = source.plain(head).and_then(|value| values.find(value));
            noted.push(match known {
                Some(known) => known,
                None => note_new((values, source), head, (agent, client), logged, weight),
            });
        }
    }

    /// Returns `true` if missing pages are counted.
    pub(crate) const fn count_missing(&self) -> bool {
        self.always < self.labels.len()
    }

    /// Returns the part of a request that is needed if the page is missing, if any label needs it.
    pub(crate) fn missing_head(&self, head: &RequestHead<'_>) -> Option<MissingHead> {
        self.count_missing().then(|| MissingHead::of(head))
    }

    /// Notes the values of a missing page.
    #[inline(never)]
    pub(crate) fn note_missing(
        &self,
        head: &MissingHead,
        logged: Option<&Logged<'_>>,
        weight: NonZeroU32,
        noted: &mut Vec<NotedValue>,
    ) {
        for (values, source) in &self.labels[self.always..] {
            let Source::Missing(part) = source else { continue };
            let mut text = Text::new();
            noted.push(note((values, source), head.value(*part, &mut text), logged, weight));
        }
    }

    /// Returns the counters for the label values of a request.
    pub(crate) fn counters(&self, noted: &[NotedValue]) -> impl Iterator<Item = Counter> {
        self.labels.iter().zip(noted).map(|((values, _), noted)| values.counter(*noted))
    }

    /// Returns the counters for the label values of a request to a page, and for their pairs with the page.
    pub(crate) fn counters_with_page(
        &self,
        noted: &[NotedValue],
        page: Option<Counter>,
        at: Timestamp,
        weight: NonZeroU32,
    ) -> impl Iterator<Item = Counter> {
        let pairs = self
            .labels
            .iter()
            .zip(noted)
            .filter_map(move |((values, _), noted)| values.pair(*noted, page?, at, weight));
        self.counters(noted).chain(pairs)
    }
}

/// Notes a value that may need to be normalized.
// Not inlined, so that the buffer does not cost anything if all values are known.
#[inline(never)]
fn note_new(
    (values, source): (&LabelValues, &Source),
    head: &RequestHead<'_>,
    client: (Agent, Option<Client>),
    logged: Option<&Logged<'_>>,
    weight: NonZeroU32,
) -> NotedValue {
    let mut text = Text::new();
    note((values, source), source.value(head, client, &mut text), logged, weight)
}

fn note(
    (values, source): (&LabelValues, &Source),
    value: Value<'_>,
    logged: Option<&Logged<'_>>,
    weight: NonZeroU32,
) -> NotedValue {
    let Some(logged) = logged else { return values.note(value.observed(), weight) };
    let is_recorded = || source.header().is_none_or(|header| (logged.has_header)(&header));
    if matches!(value, Value::Text(_)) || is_recorded() {
        values.note_at(value.observed(), logged.at, weight)
    } else {
        values.not_recorded()
    }
}
