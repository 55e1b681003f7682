use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use counter_core::Timestamp;
use counter_core::entity::{Entities, EntityDatabase, EntityErrorKind, EntityId, Recount};
use counter_core::unstable::SqliteDatabase;
use counter_core::unstable::sqlx::{QueryBuilder, Sqlite};
use tokio::time::sleep;

use super::Forum;
use super::kind::Summary;

/// Must be longer than a database needs to commit a transaction.
const COMMIT_DELAY: Duration = Duration::from_secs(2);

const DAY: u64 = 86_400;

/// The forum tables from which the counts are derived.
struct Tables(SqliteDatabase);

impl Forum {
    /// Recounts immediately, because the previous process might have been killed, and then every night: `at`
    /// seconds after midnight in the time zone that is `utc_offset` seconds ahead of UTC. This runs until the
    /// future is dropped.
    pub async fn recount_each_night(&self, at: u32, utc_offset: i32) {
        loop {
            self.recount().await;
            sleep(time_until(Timestamp::now(), at, utc_offset)).await;
        }
    }

    /// Compares all counts to the tables and fixes differences. If this fails, it is retried until it
    /// succeeds.
    pub async fn recount(&self) {
        recount(&self.members, &self.database).await;
        recount(&self.groups, &self.database).await;
        recount(&self.posts, &self.database).await;
        recount(&self.messages, &self.database).await;
    }
}

async fn recount<K: Summary>(entities: &Entities<K, SqliteDatabase>, database: &SqliteDatabase) {
    let (mut pause, mut is_reported) = (Duration::from_millis(100), false);
    while let Err(error) = entities.reconcile(&Tables(database.clone()), COMMIT_DELAY).await {
        // Another instance holds the lock, but we can't know if it is still running. So we wait for the lock
        // and recount as well. At worst, this is done twice.
        // During an outage, repeated messages would bury the reason.
        if *error.kind() != EntityErrorKind::AlreadyRunning && !is_reported {
            is_reported = true;
            tracing::warn!(
                error = &error as &dyn Error,
                kind = K::NAME,
                "failed to recount the forum, will retry without further messages"
            );
        }
        sleep(pause).await;
        pause = (2 * pause).min(Duration::from_secs(15));
    }
}

impl<K: Summary> Recount<K> for Tables {
    async fn count(
        &self,
        field: K,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, i64>, Box<dyn Error + Send + Sync>> {
        let mut counts: HashMap<_, _> = ids.iter().map(|&id| (id, 0)).collect();
        match field.source_query() {
            Some(source_query) => {
                let mut query = QueryBuilder::<Sqlite>::new(source_query);
                query.push_tuples(ids, |mut row, id| {
                    row.push_bind(number(*id));
                });
                query.push(" GROUP BY 1");
                let rows: Vec<(i64, i64)> = query.build_query_as().fetch_all(self.0.pool()).await?;
                counts.extend(rows.iter().map(|&(id, count)| (EntityId::from(id.unsigned_abs()), count)));
            }
            None => {
                let rows = self.0.read(K::NAME, ids, K::FIELDS).await?;
                let rows = rows.iter().filter(|row| row.field == field.name());
                counts.extend(rows.map(|row| (row.id, row.row.value)));
            }
        }
        Ok(counts)
    }

    async fn entities(&self, after: Option<EntityId>) -> Result<Vec<EntityId>, Box<dyn Error + Send + Sync>> {
        let mut query = QueryBuilder::<Sqlite>::new(format!("SELECT id FROM {} WHERE id > ", K::TABLE));
        query.push_bind(after.map_or(0, number)).push(" ORDER BY id LIMIT 500");
        let rows: Vec<(i64,)> = query.build_query_as().fetch_all(self.0.pool()).await?;
        Ok(rows.iter().map(|(id,)| id.unsigned_abs().into()).collect())
    }
}

/// Converts an id to a row id. An id that is not a number does not match any row.
fn number(id: EntityId) -> i64 {
    id.parse().unwrap_or(-1)
}

/// Returns the time until the next `at` seconds after midnight, local time.
fn time_until(now: Timestamp, at: u32, utc_offset: i32) -> Duration {
    let local = now.as_unix().saturating_add_signed(utc_offset.into());
    Duration::from_secs(match (u64::from(at) + DAY - local % DAY) % DAY {
        0 => DAY,
        left => left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recounts_happen_at_local_time() {
        let (four, noon) = (4 * 3600, 12 * 3600);
        for (now, utc_offset, expected) in [
            (0, 0, four),
            (four - 1, 0, 1),
            (four, 0, DAY),
            (four + 1, 0, DAY - 1),
            (noon, 3600, 15 * 3600),
            (noon, -3600, 17 * 3600),
            (3 * 3600, 3600, DAY),
        ] {
            let now = Timestamp::from_unix(1000 * DAY + now);
            assert_eq!(time_until(now, 4 * 3600, utc_offset).as_secs(), expected, "{now:?} {utc_offset}");
        }
    }
}
