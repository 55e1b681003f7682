//! Applies a batch in a transaction.

use std::collections::{HashMap, HashSet};

use super::additions::{Additions, Counted, stored};
use super::names::LockedCounter;
use super::{SqlVisits, bins, fence, names, raised, unix};
use crate::error::Error;
use crate::sql::dialect::Dialect;
use crate::sql::{Class, Failure, Session, Value};
use crate::time::Timestamp;
use crate::visits::ledger::DropReason;
use crate::visits::store::batch::{ApplyOutcome, Batch, MAX_FUTURE_SECONDS, Part, Remark};
use crate::visits::store::fence::StoredFence;

/// How long writers will be notified about a forgotten counter, in seconds. 40 days is longer than a visitor
/// bucket is retained.
pub(crate) const FORGOTTEN_TTL: i64 = 40 * 86_400;

pub(crate) async fn apply(store: &SqlVisits, batch: &Batch) -> Result<ApplyOutcome, Error> {
    store.database.attempt_batch(|| apply_with_retry(store, batch)).await
}

/// Applies a batch. On overflow, which causes a whole statement to fail, we retry cell by cell.
async fn apply_with_retry(store: &SqlVisits, batch: &Batch) -> Result<ApplyOutcome, Failure> {
    match apply_once(store, batch, false).await {
        Err(failure) if failure.class() == Some(Class::OutOfRange) => apply_once(store, batch, true).await,
        applied => applied,
    }
}

async fn apply_once(store: &SqlVisits, batch: &Batch, cell_by_cell: bool) -> Result<ApplyOutcome, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    let sent = Timestamp::now();
    let found = fence::lock(&mut session, dialect, batch).await?;
    store.skew.measure(sent, found.time, Timestamp::now());
    if let Some(outcome) = batch.fence.outcome(found.fence, || found.remarks) {
        if found.fence.sequence > 0 {
            fence::wait_until_durable(&mut session, batch.fence.writer).await?;
            session.commit().await?;
        } else {
            session.roll_back().await?;
        }
        return Ok(outcome);
    }
    if batch.fence.is_opening() {
        if let Some(witness) = &batch.witness
            && !witness.has_same_state(&fence::read_witness(&mut session, batch.fence.writer).await?)
        {
            session.roll_back().await?;
            return Ok(ApplyOutcome::SequenceGap { found: StoredFence::default() });
        }
        fence::mark(&mut session, dialect).await?;
    }
    let mut remarks = Vec::new();
    write(&mut session, dialect, batch, found.time, cell_by_cell, &mut remarks).await?;
    fence::advance(&mut session, batch, found.fence, &remarks).await?;
    session.commit().await?;
    Ok(ApplyOutcome::Applied(remarks))
}

async fn write(
    session: &mut Session,
    dialect: &Dialect,
    batch: &Batch,
    time: Timestamp,
    cell_by_cell: bool,
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let max_start = time.plus(MAX_FUTURE_SECONDS);
    let ahead = batch.cells.iter().enumerate().filter(|(_, cell)| cell.start > max_start);
    remarks.extend(ahead.map(|(index, _)| Remark::Rejected {
        part: Part::Cell(index),
        reason: DropReason::Ahead,
        message: None,
    }));
    let counts: Vec<_> = batch.counts().filter(|(_, cell, _)| cell.start <= max_start).collect();
    let visitors = batch.visitors().filter(|(_, cell, _)| cell.start <= max_start);
    let distributions = batch.distributions().filter(|(_, cell, _)| cell.start <= max_start);
    let accepted = batch.cells.iter().filter(|cell| cell.start <= max_start);
    let mut all: Vec<_> = accepted.map(|cell| &*cell.counter).collect();
    if all.is_empty() {
        return Ok(());
    }
    all.sort_unstable();
    all.dedup();
    let known = names::lock(session, dialect, &all).await?;
    let folded = if cell_by_cell { None } else { Additions::fold(batch, &counts, &known) };
    let additions = match folded {
        Some(additions) => additions,
        None => {
            let stored = stored(session, dialect, batch, &counts, &known).await?;
            Additions::fit(batch, &counts, &known, stored, remarks)
        }
    };
    add_new_lifetimes(session, dialect, batch, (&counts, &known), unix(time), &additions, remarks).await?;
    additions.write(session, dialect, batch.adds).await?;
    raised::write(session, dialect, batch, visitors, &known, remarks).await?;
    bins::write(session, dialect, batch, (distributions, &known), cell_by_cell, remarks).await
}

/// Adds remarks for counters that are new, or that were forgotten after this writer sent visitors.
async fn add_new_lifetimes(
    session: &mut Session,
    dialect: &Dialect,
    batch: &Batch,
    (counts, known): (&[Counted<'_>], &HashMap<&str, LockedCounter>),
    time: i64,
    additions: &Additions,
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let writer = batch.fence.writer.to_string();
    let counted = additions.counters();
    let forgotten =
        known.values().filter(|counter| counter.forgotten > 0 && counter.forgotten > time - FORGOTTEN_TTL);
    let forgotten: Vec<_> = forgotten.map(|counter| counter.id).filter(|id| counted.contains(id)).collect();
    let mut unnotified: HashSet<i64> = forgotten.iter().copied().collect();
    if !forgotten.is_empty() {
        let text =
            format!("SELECT counter FROM access_told WHERE writer = ? AND counter {}", dialect.in_list);
        for row in session.fetch(&text, &[Value::Text(&writer), Value::Ints(&forgotten)]).await? {
            unnotified.remove(&row.int(0)?);
        }
    }
    for &id in &unnotified {
        let text = dialect.insert_new("access_told (counter, writer)", "VALUES (?, ?)");
        session.execute(&text, &[Value::Int(id), Value::Text(&writer)]).await?;
    }
    let mut remarked = HashSet::new();
    for (index, cell, _) in counts {
        let counter = known[&*cell.counter];
        let is_new = counter.total == 0 || unnotified.contains(&counter.id);
        if is_new && counted.contains(&counter.id) && remarked.insert(counter.id) {
            remarks.push(Remark::NewLifetime { cell: *index });
        }
    }
    Ok(())
}
