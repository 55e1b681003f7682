//! Stores the absolute values of an archive, and the copy progress.

use std::collections::HashMap;
use std::time::Duration;

use super::names::LockedCounter;
use super::{SqlVisits, at, bins, names, raised, unix, width};
use crate::error::Error;
use crate::family::future::StoreFuture;
use crate::family::writer::WriterId;
use crate::sql::{Failure, Session, Value};
use crate::time::{Kind, Precision, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::archive_store::{ArchiveStore, Page, Progress};
use crate::visits::store::value as stored;

impl ArchiveStore for SqlVisits {
    fn lease(&self, holder: WriterId, time: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.database.attempt(|| lease(self, holder, time)).await })
    }

    fn release(&self, holder: WriterId) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database.attempt(|| release(self, holder)).await })
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async move {
            let rows = self.database.fetch(&format!("SELECT {}", self.database.dialect().now), &[]).await?;
            Ok(at(rows.first().map_or(Ok(0), |row| row.int(0))?))
        })
    }

    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        Box::pin(progress(self, kind, precision))
    }

    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database.attempt(|| advance(self, kind, precision, progress)).await })
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.database.attempt_batch(|| put(self, page)).await })
    }
}

async fn lease(store: &SqlVisits, holder: WriterId, time: Duration) -> Result<bool, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    let text =
        format!("SELECT holder, expiry FROM access_lease WHERE name = 'archive'{}", dialect.for_update);
    let rows = session.fetch(&text, &[]).await?;
    let found = rows.first().map(|row| Ok::<_, Failure>((row.text(0)?, row.int(1)?))).transpose()?;
    let rows = session.fetch(&format!("SELECT {}", dialect.now), &[]).await?;
    let now = rows.first().map_or(Ok(0), |row| row.int(0))?;
    let holder = holder.to_string();
    let end = now.saturating_add(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    let is_held = found.is_none_or(|(other, expiry)| other == holder || expiry <= now || expiry > end);
    if is_held {
        let text = dialect.upsert(
            "access_lease",
            "name, holder, expiry",
            "VALUES ('archive', ?, ?)",
            "name",
            &[("holder", "{new}"), ("expiry", "{new}")],
        );
        session.execute(&text, &[Value::Text(&holder), Value::Int(end)]).await?;
    }
    session.commit().await?;
    Ok(is_held)
}

async fn release(store: &SqlVisits, holder: WriterId) -> Result<(), Failure> {
    let mut session = store.database.begin().await?;
    let text = "DELETE FROM access_lease WHERE name = 'archive' AND holder = ?";
    session.execute(text, &[Value::Text(&holder.to_string())]).await?;
    session.commit().await
}

async fn progress(store: &SqlVisits, kind: Kind, precision: Precision) -> Result<Option<Progress>, Error> {
    let text = "SELECT copied, settled FROM access_archive WHERE kind = ? AND width = ?";
    let place = [Value::Int(number(kind)), Value::Int(width(precision))];
    let rows = store.database.fetch(text, &place).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Progress { copied: at(row.int(0)?), settled: at(row.int(1)?) }))
}

async fn advance(
    store: &SqlVisits,
    kind: Kind,
    precision: Precision,
    progress: Progress,
) -> Result<(), Failure> {
    let dialect = store.database.dialect();
    let text = dialect.upsert(
        "access_archive",
        "kind, width, copied, settled",
        "VALUES (?, ?, ?, ?)",
        "kind, width",
        &[("copied", "{new}"), ("settled", "{new}")],
    );
    let row = [number(kind), width(precision), unix(progress.copied), unix(progress.settled)];
    let mut session = store.database.begin().await?;
    session.execute(&text, &row.map(Value::Int)).await?;
    session.commit().await
}

async fn put(store: &SqlVisits, page: &Page) -> Result<(), Failure> {
    let mut session = store.database.begin().await?;
    let all: Vec<&str> = page.counters.iter().map(|counter| &**counter).collect();
    let known = names::lock(&mut session, store.database.dialect(), &all).await?;
    // If a counter was forgotten after being read, it must remain forgotten.
    let is_retained = |known: &LockedCounter| known.forgotten == 0 || known.forgotten < unix(page.read);
    let numbers: Vec<_> = all
        .iter()
        .map(|name| known.get(name).filter(|known| is_retained(known)).map(|known| known.id))
        .collect();
    match page.kind {
        Kind::Counts => put_counts(&mut session, store, page, &numbers).await?,
        Kind::Visitors => put_visitors(&mut session, store, page, &numbers).await?,
        Kind::Distributions => put_bins(&mut session, store, page, &numbers).await?,
    }
    session.commit().await
}

async fn put_bins(
    session: &mut Session,
    store: &SqlVisits,
    page: &Page,
    numbers: &[Option<i64>],
) -> Result<(), Failure> {
    let dialect = store.database.dialect();
    for (&start, counters) in &page.values {
        let place = (width(page.retention.precision), unix(start));
        let of = |(index, value): &(usize, stored::Value)| {
            let id = numbers.get(*index).copied().flatten()?;
            let row = |(bin, count): &(Bin, u64)| ((id, *bin), i64::try_from(*count).unwrap_or(i64::MAX));
            Some(value.bins()?.iter().map(row).collect::<Vec<_>>())
        };
        let mut rows: Vec<_> = counters.iter().filter_map(of).flatten().collect();
        rows.sort_unstable();
        if page.replaces {
            // This includes counters whose bins must be removed.
            let of = |(index, _): &(usize, _)| numbers.get(*index).copied().flatten();
            let mut ids: Vec<_> = counters.iter().filter_map(of).collect();
            ids.sort_unstable();
            ids.dedup();
            let list = dialect.in_list;
            let text = format!("DELETE FROM access_bins WHERE width = ? AND bucket = ? AND counter {list}");
            session.execute(&text, &[Value::Int(place.0), Value::Int(place.1), Value::Ints(&ids)]).await?;
        }
        let expiry = unix(page.retention.expiry(start));
        let greater = format!("{}({{old}}, {{new}})", dialect.greatest);
        for rows in rows.chunks(bins::ROWS_PER_WRITE) {
            bins::upsert(session, dialect, place, expiry, rows, &greater).await?;
        }
    }
    Ok(())
}

async fn put_counts(
    session: &mut Session,
    store: &SqlVisits,
    page: &Page,
    numbers: &[Option<i64>],
) -> Result<(), Failure> {
    let dialect = store.database.dialect();
    let pair = |(index, count): (usize, u64)| {
        Some((numbers.get(index).copied().flatten()?, i64::try_from(count).unwrap_or(i64::MAX)))
    };
    let totals: Vec<_> = page.lifetimes.iter().copied().enumerate().filter_map(pair).collect();
    if !totals.is_empty() {
        // Skips unchanged rows.
        let condition =
            if page.replaces { "kept.id = pair.id" } else { "kept.id = pair.id AND kept.total < pair.n" };
        let text = dialect.update_by_pairs("access_counter", "total", "pair.n", condition);
        session.execute(&text, &[Value::Pairs(&totals)]).await?;
    }
    let greater = format!("{}({{old}}, {{new}})", dialect.greatest);
    let pairs = dialect.pairs;
    let insert = dialect.upsert(
        "access_sample",
        "width, bucket, counter, hits",
        &format!("SELECT ?, ?, pair.id, pair.n FROM {pairs} WHERE pair.n >= 0"),
        "width, bucket, counter",
        &[("hits", if page.replaces { "{new}" } else { &greater })],
    );
    let enter = dialect.upsert(
        "access_known",
        "width, counter, latest",
        &format!("SELECT ?, pair.id, pair.n FROM {pairs} WHERE pair.n >= 0"),
        "width, counter",
        &[("latest", &greater)],
    );
    let width = Value::Int(width(page.retention.precision));
    let mut latest = HashMap::new();
    for (&start, counts) in &page.values {
        let counts = counts.iter().filter_map(|(index, value)| pair((*index, value.count()?)));
        let mut pairs: Vec<_> = counts.collect();
        pairs.sort_unstable();
        latest.extend(pairs.iter().map(|(id, _)| (*id, unix(start))));
        if !pairs.is_empty() {
            session.execute(&insert, &[width, Value::Int(unix(start)), Value::Pairs(&pairs)]).await?;
        }
        if page.replaces {
            let text = "DELETE FROM access_sample WHERE width = ? AND bucket = ? AND hits = 0";
            session.execute(text, &[width, Value::Int(unix(start))]).await?;
        }
    }
    let mut latest: Vec<_> = latest.into_iter().collect();
    latest.sort_unstable();
    if !latest.is_empty() {
        session.execute(&enter, &[width, Value::Pairs(&latest)]).await?;
    }
    Ok(())
}

async fn put_visitors<'a>(
    session: &mut Session,
    store: &SqlVisits,
    page: &'a Page,
    numbers: &[Option<i64>],
) -> Result<(), Failure> {
    // We keep unreadable sketches, which will be reported by readers.
    let mut unreadable = Vec::new();
    for (&start, sketches) in &page.values {
        let one = |(index, value): &'a (usize, stored::Value)| {
            Some((numbers.get(*index).copied().flatten()?, vec![(*index, value.visitors()?)]))
        };
        let mut raised: Vec<_> = sketches.iter().filter_map(one).collect();
        raised.sort_unstable_by_key(|(id, _)| *id);
        let place = (width(page.retention.precision), unix(start));
        let expiry = unix(page.retention.expiry(start));
        for some in raised.chunks(raised::MAX_SKETCHES) {
            if page.replaces {
                let ids: Vec<_> = some.iter().map(|(id, _)| *id).collect();
                let list = store.database.dialect().in_list;
                let text =
                    format!("DELETE FROM access_visitors WHERE width = ? AND bucket = ? AND counter {list}");
                session
                    .execute(&text, &[Value::Int(place.0), Value::Int(place.1), Value::Ints(&ids)])
                    .await?;
            }
            raised::merge(session, store.database.dialect(), place, expiry, some, &mut unreadable).await?;
        }
    }
    Ok(())
}

const fn number(kind: Kind) -> i64 {
    match kind {
        Kind::Counts => 0,
        Kind::Visitors => 1,
        Kind::Distributions => 2,
    }
}
