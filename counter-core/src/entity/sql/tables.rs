//! Statements for the entity tables.

use sqlx::Error as SqlError;

use crate::entity::cache::EntityRow;
use crate::entity::database::{EntityAddition, EntityApplyOutcome, EntityBatch};
use crate::entity::id::{EntityId, EntityIdError};
use crate::entity::versioned::Versioned;
use crate::sql::dialect::Dialect;
use crate::sql::driver::{Connection, Row};
use crate::sql::{Class, Failure, Value};

/// Seconds of inactivity on the database clock after which we remove the fence of a writer: 30 days.
const WRITER_TTL: i64 = 30 * 86_400;

/// Maximum number of fences to remove when a writer starts.
const MAX_REMOVED_FENCES: i64 = 1000;

/// The entity tables of a connection.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a mut dyn Connection,
    pub(super) dialect: &'static Dialect,
}

impl Tables<'_> {
    pub(super) async fn create(&mut self) -> Result<(), Failure> {
        self.run(self.dialect.entity_schema).await
    }

    /// Adds to counts and returns the resulting rows.
    pub(super) async fn add(
        &mut self,
        kind: &str,
        additions: &[EntityAddition],
    ) -> Result<Vec<EntityRow>, Failure> {
        let ids: Vec<_> = additions.iter().map(|addition| addition.id.to_string()).collect();
        let values = additions.iter().zip(&ids).flat_map(|(addition, id)| {
            [Value::Text(kind), Value::Text(id), Value::Text(addition.field), Value::Int(addition.by)]
        });
        let values: Vec<_> = values.collect();
        let rows = format!("VALUES {}", vec!["(?, ?, ?, ?, 1)"; additions.len()].join(", "));
        let text = self.dialect.upsert(
            "access_entity",
            "kind, entity, field, value, version",
            &rows,
            "kind, entity, field",
            &[("value", "{old} + {new}"), ("version", "{old} + 1")],
        );
        let text = text + " RETURNING entity, field, value, version";
        let known = |name: &str| additions.iter().map(|addition| addition.field).find(|field| *field == name);
        rows_of(&self.fetch(&text, &values).await?, known)
    }

    pub(super) async fn read(
        &mut self,
        kind: &str,
        ids: &[EntityId],
        fields: &'static [&'static str],
    ) -> Result<Vec<EntityRow>, Failure> {
        let ids: Vec<_> = ids.iter().map(EntityId::to_string).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let text = format!(
            "SELECT entity, field, value, version FROM access_entity WHERE kind = ? AND entity {}",
            self.dialect.in_list
        );
        let rows = self.fetch(&text, &[Value::Text(kind), Value::Texts(&ids)]).await?;
        rows_of(&rows, |name| fields.iter().copied().find(|field| *field == name))
    }

    pub(super) async fn entities(
        &mut self,
        kind: &str,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<EntityId>, Failure> {
        let text =
            "SELECT DISTINCT entity FROM access_entity WHERE kind = ? AND entity > ? ORDER BY entity LIMIT ?";
        // Ids are never empty, so the empty string sorts before all ids.
        let after = after.map_or_else(String::new, |id| id.to_string());
        let limit = Value::Int(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.fetch(text, &[Value::Text(kind), Value::Text(&after), limit]).await?;
        rows.iter().map(id_of).collect()
    }

    /// Sets a count if the row still has this version. Returns `false` on a mismatch.
    pub(super) async fn correct(
        &mut self,
        kind: &str,
        id: EntityId,
        field: &str,
        version: u64,
        value: i64,
    ) -> Result<bool, Failure> {
        let id = id.to_string();
        let (kind, id, field, value) =
            (Value::Text(kind), Value::Text(&id), Value::Text(field), Value::Int(value));
        let changed = if version == 0 {
            let into = "access_entity (kind, entity, field, value, version)";
            let insert = self.dialect.insert_new(into, "VALUES (?, ?, ?, ?, 1)");
            self.execute(&insert, &[kind, id, field, value]).await?
        } else {
            let update = "UPDATE access_entity SET value = ?, version = version + 1 \
                          WHERE kind = ? AND entity = ? AND field = ? AND version = ?";
            let version = Value::Int(version.cast_signed());
            self.execute(update, &[value, kind, id, field, version]).await?
        };
        Ok(changed == 1)
    }

    /// Removes fences of inactive writers individually and without a transaction, because a single statement
    /// would also lock other fences while scanning the table.
    pub(super) async fn remove_stale_fences(&mut self) -> Result<(), Failure> {
        let stale = format!("written < {} - ?", self.dialect.now);
        let select =
            format!("SELECT writer FROM access_entity_fence WHERE {stale} LIMIT {MAX_REMOVED_FENCES}");
        let delete = format!("DELETE FROM access_entity_fence WHERE writer = ? AND {stale}");
        for row in self.fetch(&select, &[Value::Int(WRITER_TTL)]).await? {
            self.execute(&delete, &[Value::Text(&row.text(0)?), Value::Int(WRITER_TTL)]).await?;
        }
        Ok(())
    }

    /// Applies a batch in the current transaction, unless it has already been applied.
    pub(super) async fn apply(&mut self, batch: &EntityBatch) -> Result<EntityApplyOutcome, Failure> {
        if let Some(rejected) = self.write_fence(batch).await? {
            return Ok(EntityApplyOutcome { rows: None, rejected });
        }
        let (rows, rejected) = self.add_all(batch).await?;
        if rejected > 0 {
            let update = "UPDATE access_entity_fence SET refused = ? WHERE writer = ?";
            let writer = batch.writer.to_string();
            self.execute(update, &[Value::Int(rejected.cast_signed()), Value::Text(&writer)]).await?;
        }
        Ok(EntityApplyOutcome { rows: Some(rows), rejected })
    }

    /// Writes the fence. If the batch has already been applied, this returns the number of rejected calls.
    async fn write_fence(&mut self, batch: &EntityBatch) -> Result<Option<u64>, Failure> {
        let (writer, now) = (batch.writer.to_string(), self.dialect.now);
        let (writer, sequence) = (Value::Text(&writer), Value::Int(batch.sequence.cast_signed()));
        let into = "access_entity_fence (writer, sequence, refused, written)";
        let insert = self.dialect.insert_new(into, &format!("VALUES (?, 0, 0, {now})"));
        self.execute(&insert, &[writer]).await?;
        // If the same batch is sent concurrently, the second attempt will wait here for the first.
        let update = format!(
            "UPDATE access_entity_fence SET sequence = ?, refused = 0, written = {now} WHERE writer = ? AND sequence < ?"
        );
        if self.execute(&update, &[sequence, writer, sequence]).await? == 1 {
            return Ok(None);
        }
        let read = "SELECT refused FROM access_entity_fence WHERE writer = ? AND sequence = ?";
        let rows = self.fetch(read, &[writer, sequence]).await?;
        let rejected = rows.first().map(|row| row.int(0)).transpose()?;
        Ok(Some(rejected.unwrap_or_default().unsigned_abs()))
    }

    /// Adds all with a single statement, or individually if a sum overflows, so that a single row can't block
    /// the batch.
    async fn add_all(&mut self, batch: &EntityBatch) -> Result<(Vec<EntityRow>, u64), Failure> {
        if let Some(rows) = self.try_add(batch.kind, &batch.additions).await? {
            return Ok((rows, 0));
        }
        let (mut rows, mut rejected) = (Vec::new(), 0);
        for addition in &batch.additions {
            match self.try_add(batch.kind, std::slice::from_ref(addition)).await? {
                Some(row) => rows.extend(row),
                None => rejected += addition.calls,
            }
        }
        Ok((rows, rejected))
    }

    /// Adds within a savepoint. If a sum overflows, this rolls back and returns `None`.
    async fn try_add(
        &mut self,
        kind: &str,
        additions: &[EntityAddition],
    ) -> Result<Option<Vec<EntityRow>>, Failure> {
        self.run("SAVEPOINT additions").await?;
        match self.add(kind, additions).await {
            Ok(rows) => {
                self.run("RELEASE SAVEPOINT additions").await?;
                Ok(Some(rows))
            }
            Err(failure) if failure.class() == Some(Class::OutOfRange) => {
                self.run("ROLLBACK TO SAVEPOINT additions").await?;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn run(&mut self, text: &'static str) -> Result<(), Failure> {
        self.connection.fetch_text(text).await.map(drop).map_err(|error| self.dialect.failure(error))
    }

    async fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        self.connection.execute(text, values).await.map_err(|error| self.dialect.failure(error))
    }

    async fn fetch(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        self.connection.fetch(text, values).await.map_err(|error| self.dialect.failure(error))
    }
}

/// Parses rows, skipping unknown fields.
fn rows_of(rows: &[Row], known: impl Fn(&str) -> Option<&'static str>) -> Result<Vec<EntityRow>, Failure> {
    let mut known_rows = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(field) = known(&row.text(1)?) {
            let version = u64::try_from(row.int(3)?).unwrap_or_default();
            let value = Versioned { version, value: row.int(2)? };
            known_rows.push(EntityRow { id: id_of(row)?, field, row: value });
        }
    }
    Ok(known_rows)
}

fn id_of(row: &Row) -> Result<EntityId, Failure> {
    let malformed = |error: EntityIdError| Failure::NoResponse(SqlError::Decode(error.into()));
    row.text(0)?.parse().map_err(malformed)
}
