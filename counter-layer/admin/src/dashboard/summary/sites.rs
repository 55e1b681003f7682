//! The sites of a fleet, side by side.

use counter_core::{CounterName, Error, Timestamp};
use counter_layer::internal::{HITS, STATUSES};
use futures_util::future::{join_all, try_join4};

use super::summary::{Card, ERRORS, part};
use crate::dashboard::annotations::Annotators;
use crate::dashboard::format::numbers;
use crate::dashboard::panels::table::{Spark, sparks};
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::view::View;

/// A site with its numbers of the period.
#[derive(Debug)]
pub(crate) struct SiteCard {
    pub(crate) name: String,
    /// Its people, or its hits if they have no visitors. `None` if the site can't be read.
    pub(crate) card: Option<Card>,
    /// The share of requests that failed.
    pub(crate) errors: Option<String>,
    pub(crate) spark: Option<Spark>,
    /// The URL of its page.
    pub(crate) address: String,
}

/// Reads all sites of a fleet, unless the page is that of a single site.
pub(crate) async fn read(reader: &Reader<'_>, view: &View, now: Timestamp) -> Vec<SiteCard> {
    let sites = if view.of_site.is_none() { &*view.site.sites } else { &[] };
    join_all(sites.iter().map(|name| SiteCard::read(reader, view, name, now))).await
}

impl SiteCard {
    async fn read(reader: &Reader<'_>, view: &View, name: &str, now: Timestamp) -> Self {
        let address = view.address_with(|view| view.of_site = Some(name.to_owned()));
        let (name, unread) = (name.to_owned(), (None, None, None));
        let found = match reader.stats.of_site(&name) {
            Some(stats) => {
                let none = Annotators::default();
                let reader = Reader::new(&stats, &none);
                // The reason is part of the warning of the page, which reads the same site.
                numbers(&PeriodReader::new(&reader, view, now), view, now).await.unwrap_or(unread)
            }
            None => unread,
        };
        let (card, errors, spark) = found;
        Self { name, card, errors, spark, address }
    }
}

async fn numbers(
    period: &PeriodReader<'_>,
    view: &View,
    now: Timestamp,
) -> Result<(Option<Card>, Option<String>, Option<Spark>), Error> {
    let names = std::iter::once(HITS).chain(STATUSES).filter_map(|name| CounterName::new(name).ok());
    let names: Vec<_> = names.collect();
    let hits = &names[..1];
    let trend = async {
        let views = if period.counts_views().await? { hits[0].views() } else { None };
        sparks(period, hits, views.as_ref().map_or(hits, std::slice::from_ref), now).await
    };
    let (totals, before, people, mut trend) =
        try_join4(period.totals(&names), period.before(hits), period.people(hits), trend).await?;
    let visitors = people.all.as_ref().and_then(|all| all[0]).map(|people| people.visitors);
    let card = match visitors {
        Some(0) if totals[0] != Some(0) => Card::hits(view, &hits[0], totals[0], before[0]),
        _ => Card::people(period, view, &hits[0], &people, totals[0]),
    };
    let errors =
        part(&names, &totals, &ERRORS, &STATUSES).and_then(|(part, whole)| numbers::share(part, whole));
    Ok((Some(card), errors, trend.pop().flatten()))
}
