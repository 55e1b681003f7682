use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::visits::{Agent, LabelError, LabelValues, NotedValue};
use counter_core::{Counter, CounterName, Recorder, Timestamp};
use http::header::USER_AGENT;

use super::Label;
use super::client::{Client, Words};
use super::late::{Late, LateHead, When};
use super::source::{Source, header};
use super::text::Text;
use super::value::Value;
use crate::identity::RequestHead;
use crate::request::logged::Logged;

/// The labels of a layer and their counters.
pub(crate) struct Labels {
    /// Labels that depend on the response are last.
    labels: Vec<(LabelValues, Source)>,
    /// Number of labels that count all requests.
    always: usize,
    /// True if there are labels of views.
    of_views: bool,
    of_missing: bool,
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
            let is_of_views = label.source.when() == Some(When::View);
            if !is_of_views && CounterName::VIEW_LABELS.contains(&&*label.name) {
                return Err(LabelError::Reserved(label.name.into_owned()));
            }
            by_name.retain(|other| other.name != label.name);
            by_name.push(label);
        }
        let needs_words =
            by_name.iter().any(|label| matches!(label.source, Source::Device | Source::Browser));
        let is_late = |label: &Label| matches!(label.source, Source::Late(_));
        by_name.sort_by_key(is_late);
        let always = by_name.iter().filter(|label| !is_late(label)).count();
        let has = |when| by_name.iter().any(|label| label.source.when() == Some(when));
        let [of_views, of_missing] = [When::View, When::Missing].map(has);
        let bound = by_name.into_iter().map(|label| {
            // Clients choose the paths.
            let is_path = matches!(label.source, Source::Late(Late::Address(_) | Late::Missing(_)));
            let is_guarded = is_path || label.min_hits > NonZeroU32::MIN;
            let mut values = recorder.label_values(&label.name)?;
            if is_guarded {
                values = values.min_hits(label.min_hits);
            }
            if label.people {
                values = values.people();
            }
            Ok((if label.by_page { values.by_page() } else { values }, label.source))
        });
        let labels = bound.collect::<Result<Vec<_>, LabelError>>()?;
        let words = needs_words.then(Words::default);
        Ok((!labels.is_empty()).then(|| Arc::new(Self { labels, always, of_views, of_missing, words })))
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
        self.of_missing
    }

    /// Returns `true` if there are labels of views.
    pub(crate) const fn count_views(&self) -> bool {
        self.of_views
    }

    /// Returns the part of a request that is needed when the response is known, if any label needs it.
    pub(crate) fn late_head(&self, head: &RequestHead<'_>, asks_for_view: bool) -> Option<LateHead> {
        let is_private =
            |(_, source): &(_, Source)| matches!(source, Source::Late(late) if late.is_private(head));
        (self.of_missing || (self.of_views && asks_for_view))
            .then(|| LateHead::of(head, asks_for_view && self.labels[self.always..].iter().any(is_private)))
    }

    /// Notes the values of a request that may be a view. Returns `false` and notes nothing if any value has no place
    /// yet. A noted value has no effect until it is counted.
    pub(crate) fn note_known_view(
        &self,
        head: &RequestHead<'_>,
        logged: Option<&Logged<'_>>,
        weight: NonZeroU32,
        noted: &mut Vec<NotedValue>,
    ) -> bool {
        for (values, source) in &self.labels[self.always..] {
            let Source::Late(late) = source else { continue };
            if late.when() != When::View {
                continue;
            }
            let known = match late.plain(head) {
                // A log may not contain the header.
                Some(b"") if logged.is_none() => Some(values.note(None, weight)),
                plain => plain.and_then(|value| values.find(value)),
            };
            match known {
                Some(known) => noted.push(known),
                None => {
                    noted.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Notes the values that depend on the response.
    #[inline(never)]
    pub(crate) fn note_late(
        &self,
        when: When,
        head: &LateHead,
        logged: Option<&Logged<'_>>,
        weight: NonZeroU32,
        noted: &mut Vec<NotedValue>,
    ) {
        for (values, source) in &self.labels[self.always..] {
            if let Source::Late(late) = source
                && late.when() == when
            {
                noted.push(note((values, source), late.value(head, &mut Text::new()), logged, weight));
            }
        }
    }

    /// Returns the counters for the label values of a request.
    pub(crate) fn counters(&self, noted: &[NotedValue]) -> impl Iterator<Item = Counter> {
        // Any handle knows the counters of all labels.
        let (values, _) = &self.labels[0];
        noted.iter().map(|noted| values.counter(*noted))
    }

    /// Returns the counters for the label values of a request to a page, and for their pairs with the page.
    pub(crate) fn counters_with_page(
        &self,
        noted: &[NotedValue],
        page: Option<Counter>,
        at: Timestamp,
        weight: NonZeroU32,
    ) -> impl Iterator<Item = Counter> {
        let (values, _) = &self.labels[0];
        let pairs = noted.iter().filter_map(move |noted| values.pair(*noted, page?, at, weight));
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
