//! The sites of a fleet, side by side.

use counter_core::fleet::Site;
use counter_core::{CounterName, Error, Timestamp};
use counter_layer::internal::{ERRORS, HITS, STATUSES};
use futures_util::future::{join_all, try_join4};

use super::cards::{Card, part};
use crate::dashboard::annotations::Annotators;
use crate::dashboard::format::numbers;
use crate::dashboard::panels::table::{Spark, sparks};
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::view::View;

/// A site of a fleet.
#[derive(Debug)]
pub(crate) struct SiteCard {
    pub(crate) name: String,
    /// The URL of its page.
    pub(crate) address: String,
    /// `None` if the site can't be read.
    pub(crate) numbers: Option<SiteNumbers>,
}

/// The numbers of a site in the period.
#[derive(Debug)]
pub(crate) struct SiteNumbers {
    /// Its people, or its hits if they have no visitors.
    pub(crate) card: Card,
    /// The share of requests that failed.
    pub(crate) errors: Option<String>,
    /// What the line shows.
    pub(crate) trend: &'static str,
    pub(crate) spark: Option<Spark>,
}

/// Reads all sites of a fleet, unless the page is that of a single site.
pub(crate) async fn read(reader: &Reader<'_>, view: &View, now: Timestamp) -> Vec<SiteCard> {
    let sites = if view.of_site.is_none() { reader.stats.sites() } else { &[] };
    join_all(sites.iter().map(|site| SiteCard::read(reader, view, site, now))).await
}

impl SiteCard {
    async fn read(reader: &Reader<'_>, view: &View, site: &Site, now: Timestamp) -> Self {
        let name = site.name().to_owned();
        let address = View { of_site: Some(name.clone()), ..view.clone() }.site();
        let numbers = match reader.stats.of_site(&name) {
            Some(stats) => {
                let none = Annotators::default();
                let reader = Reader::new(&stats, &none);
                // The reason is part of the warning of the page, which reads the same site.
                SiteNumbers::read(&PeriodReader::new(&reader, view, now), view, now).await.ok()
            }
            None => None,
        };
        Self { name, address, numbers }
    }
}

impl SiteNumbers {
    async fn read(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let names = std::iter::once(HITS).chain(STATUSES).filter_map(|name| CounterName::new(name).ok());
        let names: Vec<_> = names.collect();
        let hits = &names[..1];
        let trend = async {
            let views = if period.counts_views().await? { hits[0].views() } else { None };
            let (title, of) =
                views.as_ref().map_or(("Hits", hits), |views| ("Views", std::slice::from_ref(views)));
            Ok((title, sparks(period, hits, of, now).await?.pop().flatten()))
        };
        let (totals, before, people, (trend, spark)) =
            try_join4(period.totals(&names), period.before(hits), period.people(hits), trend).await?;
        let visitors = people.all.as_ref().and_then(|all| all[0]).map(|people| people.visitors);
        let card = match visitors {
            None | Some(0) if totals[0] != Some(0) => Card::hits(view, &hits[0], totals[0], before[0]),
            _ => Card::people(period, view, &hits[0], &people, totals[0]),
        };
        let errors = part(period, &names, &totals, &ERRORS, &STATUSES);
        let errors = errors.and_then(|(part, whole)| numbers::share(part, whole));
        Ok(Self { card, errors, trend, spark })
    }
}
