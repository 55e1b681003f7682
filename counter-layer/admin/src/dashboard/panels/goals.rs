//! The goals of the site, and how many people reach them.

use counter_core::{CounterName, Error};
use counter_layer::internal::HITS;
use futures_util::future::try_join;

use super::name::Name;
use super::panel::{Panel, PanelRow, Role};
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// Reads how many people reached the goals in the period. Returns `None` if there are no goals.
pub(crate) async fn panel(period: &PeriodReader<'_>, view: &View) -> Result<Option<Panel>, Error> {
    let (goals, Ok(site)) = (period.reader.goals().await?, CounterName::new(HITS)) else { return Ok(None) };
    if goals.is_empty() {
        return Ok(None);
    }
    let mut counters = vec![site];
    counters.extend(goals.iter().map(|goal| goal.counter().clone()));
    let (hits, people) = try_join(period.totals(&counters), period.people(&counters)).await?;
    let people_of = |place: usize| {
        let visitors = people.all.as_ref()?.get(place)?.as_ref()?.visitors;
        // Without any, the hits of the goal have no visitors, so that the number is not known.
        let visitors = Some(visitors).filter(|visitors| *visitors > 0 || hits[place] == Some(0))?;
        Some(period.at_most(visitors, hits[place]))
    };
    let most = (1..counters.len()).filter_map(people_of).max().unwrap_or_default();
    let row = |(place, goal): (usize, &counter_alert::goal::Goal)| {
        let reached = people_of(place);
        let value = match (reached, hits[place]) {
            (Some(people), _) => digits::grouped(people),
            (None, Some(1)) => "1 hit".to_owned(),
            (None, Some(hits)) => format!("{} hits", digits::grouped(hits)),
            (None, None) => numbers::unknown(),
        };
        let conversion =
            reached.zip(people_of(0)).and_then(|(people, of)| period.reader.share(people.min(of), of));
        PanelRow {
            name: Name::new(goal.name()),
            description: None,
            address: view.counter(goal.counter()),
            value,
            share: conversion.or_else(|| Some(numbers::unknown())),
            change: reached.and_then(|_| people.compared[place].change()),
            percent: numbers::percent(reached.unwrap_or_default(), most).to_string(),
            role: Role::Value,
        }
    };
    Ok(Some(Panel {
        id: "goals".to_owned(),
        title: "Goals".to_owned(),
        rows: (1..).zip(&goals).map(row).collect(),
        heads: Some(["People", "Conversion"]),
        note: Some("The conversion is the share of the people of the site.".to_owned()),
        all: None,
    }))
}
