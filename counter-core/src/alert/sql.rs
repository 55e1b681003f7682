//! The document of alerts in a SQL database: one row.

use std::sync::Arc;

use super::{AlertDocument, AlertStore};
use crate::future::Answer;
use crate::sql::{Database, Failure, Value};
use crate::{Error, ErrorKind, Timestamp};

/// The document of one database.
#[derive(Debug)]
pub(crate) struct SqlAlerts {
    database: Arc<Database>,
}

impl SqlAlerts {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl AlertStore for SqlAlerts {
    fn read(&self) -> Answer<'_, AlertDocument> {
        Box::pin(async move {
            // The time is there also where the row is not.
            let now = self.database.dialect().now;
            let text = format!(
                "SELECT {now}, access_alerts.version, access_alerts.content FROM (SELECT 1 AS id) AS one \
                 LEFT JOIN access_alerts ON access_alerts.id = one.id"
            );
            let rows = self.database.fetch(&text, &[]).await?;
            let malformed = || Error::new(ErrorKind::Malformed { key: "access_alerts".to_owned() });
            let row = rows.first().ok_or_else(malformed)?;
            let number = |number: i64| u64::try_from(number).map_err(|_| malformed());
            Ok(AlertDocument {
                version: row.optional_int(1)?.map_or(Ok(0), number)?,
                content: row.optional_bytes(2)?.unwrap_or_default(),
                now: Some(Timestamp::from_unix(number(row.int(0)?)?)),
            })
        })
    }

    fn replace<'a>(&'a self, version: u64, content: &'a [u8]) -> Answer<'a, bool> {
        Box::pin(self.database.attempt(move || replace(&self.database, version, content)))
    }
}

async fn replace(database: &Database, version: u64, content: &[u8]) -> Result<bool, Failure> {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let mut session = database.begin().await?;
    let changed = match version {
        0 => {
            let into = "access_alerts (id, version, content)";
            let insert = database.dialect().insert_new(into, "VALUES (1, 1, ?)");
            session.execute(&insert, &[Value::Bytes(content)]).await?
        }
        version => {
            let update =
                "UPDATE access_alerts SET version = version + 1, content = ? WHERE id = 1 AND version = ?";
            session.execute(update, &[Value::Bytes(content), Value::Int(version)]).await?
        }
    };
    session.commit().await?;
    Ok(changed == 1)
}
