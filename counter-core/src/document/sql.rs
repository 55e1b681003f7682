//! Documents in a SQL database, stored as rows.

use std::sync::Arc;

use super::store::{Document, DocumentStore};
use super::version::random;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::sql::{Database, Failure, Value};
use crate::time::Timestamp;

/// The document store of a `SqlStore`: the documents in a database.
#[derive(Debug)]
pub(crate) struct SqlDocuments {
    database: Arc<Database>,
}

impl SqlDocuments {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl DocumentStore for SqlDocuments {
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
        // Documents never have this version.
        self.read_newer(name, u64::MAX)
    }

    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            // This always returns the time, even if the document does not exist.
            let now = self.database.dialect().now;
            let text = format!(
                "SELECT {now}, access_documents.version, \
                 CASE WHEN access_documents.version = ? THEN NULL ELSE access_documents.content END \
                 FROM (SELECT 1 AS one) AS one LEFT JOIN access_documents ON access_documents.name = ?"
            );
            let known = Value::Int(i64::try_from(version).unwrap_or(-1));
            let rows = self.database.fetch(&text, &[known, Value::Bytes(name.as_bytes())]).await?;
            let malformed = || Error::new(ErrorKind::Malformed { key: format!("access_documents: {name}") });
            let row = rows.first().ok_or_else(malformed)?;
            let number = |number: i64| u64::try_from(number).map_err(|_| malformed());
            Ok(Document {
                version: row.optional_int(1)?.map_or(Ok(0), number)?,
                content: row.optional_bytes(2)?.unwrap_or_default(),
                now: Some(Timestamp::from_unix(number(row.int(0)?)?)),
            })
        })
    }

    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>> {
        Box::pin(self.database.attempt(move || replace(&self.database, name, version, content)))
    }
}

async fn replace(
    database: &Database,
    name: &str,
    version: u64,
    content: &[u8],
) -> Result<Option<u64>, Failure> {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let random = random();
    let new = Value::Int(random.cast_signed());
    let (name, content) = (Value::Bytes(name.as_bytes()), Value::Bytes(content));
    let mut session = database.begin().await?;
    let changed = match version {
        0 => {
            let into = "access_documents (name, version, content)";
            let insert = database.dialect().insert_new(into, "VALUES (?, ?, ?)");
            session.execute(&insert, &[name, new, content]).await?
        }
        version => {
            let update =
                "UPDATE access_documents SET version = ?, content = ? WHERE name = ? AND version = ?";
            session.execute(update, &[new, content, name, Value::Int(version)]).await?
        }
    };
    session.commit().await?;
    Ok((changed == 1).then_some(random))
}
