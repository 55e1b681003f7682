//! Implements the store traits for an archive: decides whether a call goes to the near store, the far store,
//! or both.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::Audit;
use super::binding::Binding;
use super::{Archive, restore};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Timestamp};
use crate::visits::ledger::{ArchiveHealth, Hint};
use crate::visits::store::{
    ApplyOutcome, Batch, Cleaned, CountedReading, KnownQuery, KnownReading, Query, Read, Readings, StoreInfo,
    Unions, Unreadable, Witness, Write,
};

impl Write for Archive {
    fn attach(&self, grid: &Grid) {
        self.state().near = Some(grid.clone());
        self.near.attach(grid);
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        self.near.apply(batch)
    }

    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        self.near.witness(shard, writer)
    }

    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Cleaned> {
        Box::pin(async move {
            let cleaned = self.near.clean(shard, now, &self.near_retention(now, retained).await).await?;
            if cleaned.more || shard != Shard::default() || self.is_foreign() {
                return Ok(cleaned);
            }
            let far = self.far.clean(Shard::default(), now, &self.far_grid.counts).await?;
            Ok(Cleaned {
                samples: cleaned.samples + far.samples,
                counters: cleaned.counters + far.counters,
                more: far.more,
            })
        })
    }

    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let is_first = cursor.is_none() && shard == Shard::default();
            let next = self.near.adopt(shard, cursor, retained).await?;
            if is_first && !self.is_foreign() {
                self.far.adopt(Shard::default(), None, &self.far_grid.counts).await?;
            }
            Ok(next)
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            // The near store must come first, so that copies that were read earlier are older than the time
            // recorded by the far store.
            self.near.forget(counter, grid, now).await?;
            if self.check_once().await.is_err() && self.is_foreign() {
                return Ok(());
            }
            self.far.forget(counter, &grid.with_longest_retention(&self.far_grid), now).await?;
            // A repair may have read the far store before this. We need to invalidate the batches, and remove
            // the hits that it already added.
            restore::reject_concurrent_repairs(self, self.info().shards.of(counter)).await?;
            self.near.forget(counter, grid, now).await
        })
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        self.near.salt(epoch, candidate, expiry)
    }
}

impl Read for Archive {
    fn info(&self) -> StoreInfo<'_> {
        let left = |audit: &Audit| if audit.repaired_from.is_some() { 0 } else { audit.differing };
        let differing = self.last_audit().map(|audit| left(&audit));
        let (mut info, far, state) = (self.near.info(), self.far.info(), self.state());
        info.reach = Some(&self.far_grid);
        let is_foreign = matches!(state.binding, Some(Binding::Foreign(..)));
        info.archive = Some(ArchiveHealth {
            waiting_buckets: state.waiting,
            unreadable: state.unreadable.values().sum(),
            differing,
            is_foreign,
        });
        let far_only: Vec<_> = far.hints.into_iter().filter(|hint| !info.hints.contains(hint)).collect();
        info.hints.extend(far_only);
        let hints = [
            (state.is_far_unreadable(), Hint::ARCHIVE_UNREADABLE),
            (state.is_copy_failing && !is_foreign, Hint::ARCHIVE_NOT_COPIED),
        ];
        info.hints.extend(hints.into_iter().filter(|(holds, _)| *holds).map(|(_, hint)| hint));
        info
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        let near = self.near.values(kind, query.clone());
        let Some(retention) = self.far_retention(kind, query.precision) else { return near };
        Box::pin(async move {
            let far = self.far.values(kind, Query { retained: retention.samples.get(), ..query.clone() });
            let (mut readings, far) = self.both(near, far).await?;
            let buckets = self.near_buckets(kind, query.precision);
            let end = far.as_ref().map_or(readings.end, |far| readings.end.min(far.end));
            let range = query.range.start..end;
            match far {
                Ok(mut far) => {
                    for (near, far) in readings.counters.iter_mut().zip(&mut far.counters) {
                        buckets.resolve(near, far, &range);
                    }
                    readings.merge(far, u64::max);
                }
                Err(unreadable) => {
                    for near in &mut readings.counters {
                        buckets.retain_known(near, &unreadable, &range);
                    }
                }
            }
            Ok(readings)
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let (near, far) = (self.near.lifetimes(counters), self.far.lifetimes(counters));
            // The values in the far store are from the most recent copy. They only matter if the near store
            // lost data.
            let (near, far) = self.both(near, far).await?;
            let Ok(far) = far else { return Ok(near) };
            let greater = |(near, far): (Result<u64, _>, Result<u64, _>)| match (near, far) {
                (Ok(near), Ok(far)) => Ok(near.max(far)),
                (near, _) => near,
            };
            Ok(near.into_iter().zip(far).map(greater).collect())
        })
    }

    /// Uses the counts from the near store if it has all buckets of a union; otherwise merges the sketches
    /// from both stores.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        unions: &'a [Vec<Bucket>],
    ) -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        let mut near = BTreeMap::new();
        let mut is_near = |bucket: &Bucket| {
            let of = || self.near_buckets(Kind::Visitors, bucket.precision);
            near.entry(bucket.precision).or_insert_with(of).contain(bucket.start)
        };
        let is_near: Vec<_> = unions.iter().map(|buckets| buckets.iter().all(&mut is_near)).collect();
        if is_near.iter().all(|is_near| *is_near) {
            return self.near.visitor_counts(counters, unions);
        }
        Box::pin(async move {
            let of = |side: bool| -> Vec<_> {
                let matching = unions.iter().zip(&is_near).filter(|(_, is_near)| **is_near == side);
                matching.map(|(buckets, _)| buckets.clone()).collect()
            };
            let (near, remaining) = (of(true), of(false));
            let near = match near.is_empty() {
                true => counters.iter().map(|_| Vec::new()).collect(),
                false => self.near.visitor_counts(counters, &near).await?,
            };
            let remaining = Unions::read(self, counters, &remaining).await?;
            let in_order = |(near, remaining): (Vec<_>, Vec<_>)| {
                let (mut near, mut remaining) = (near.into_iter(), remaining.into_iter());
                let next = |is_near: &bool| if *is_near { near.next() } else { remaining.next() };
                is_near.iter().filter_map(next).collect()
            };
            Ok(near.into_iter().zip(remaining).map(in_order).collect())
        })
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        Box::pin(async move {
            let near = self.near.known(query);
            // Only include precisions kept in the far store, so that a list of minutes doesn't contain names
            // from past years.
            let retained: Vec<_> = query.precisions.iter().copied().filter(|one| self.keeps(*one)).collect();
            if retained.is_empty() {
                return near.await;
            }
            let far = self.far.known(KnownQuery { precisions: &retained, ..query });
            let (mut all, far) = self.both(near, far).await?;
            match far {
                Ok(far) => {
                    let counters: BTreeSet<_> = all.counters.into_iter().chain(far.counters).collect();
                    all.counters = counters.into_iter().collect();
                    all.unreadable.extend(far.unreadable);
                }
                Err(unreadable) => all.unreadable.push(unreadable),
            }
            Ok(all)
        })
    }

    /// Lists a shard of the near store, and with the first shard also the far store, because a counter may no
    /// longer be in the near store.
    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        const NEAR: &str = "near:";
        const FAR: &str = "far:";
        Box::pin(async move {
            let cursor = cursor.as_deref();
            if let Some(cursor) = cursor.and_then(|cursor| cursor.strip_prefix(FAR)) {
                let cursor = Some(cursor).filter(|cursor| !cursor.is_empty()).map(str::to_owned);
                let far = self.read_far(self.far.counted(Shard::default(), cursor)).await;
                let mut page = far.unwrap_or_else(|unreadable| CountedReading {
                    unreadable: vec![unreadable],
                    ..CountedReading::default()
                });
                page.next = page.next.map(|next| format!("{FAR}{next}"));
                return Ok(page);
            }
            let cursor = cursor.map(|cursor| cursor.strip_prefix(NEAR).unwrap_or(cursor).to_owned());
            let mut page = self.near.counted(shard, cursor).await?;
            page.next = match page.next {
                Some(next) => Some(format!("{NEAR}{next}")),
                None if shard == Shard::default() => Some(FAR.to_owned()),
                None => None,
            };
            Ok(page)
        })
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> StoreFuture<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(async move {
            let (near, far) =
                (self.near.contains(counters, precisions), self.far.contains(counters, precisions));
            let (near, far) = self.both(near, far).await?;
            let far = far.unwrap_or_else(|unreadable| vec![Err(unreadable); counters.len()]);
            let either = |(near, far): (Result<bool, _>, Result<bool, _>)| match (near, far) {
                (Ok(true), _) | (_, Ok(true)) => Ok(true),
                (near, far) => near.and(far),
            };
            Ok(near.into_iter().zip(far).map(either).collect())
        })
    }
}

impl Archive {
    fn keeps(&self, precision: Precision) -> bool {
        self.far_retention(Kind::Counts, precision).is_some()
    }
}
