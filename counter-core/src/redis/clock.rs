use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::Value;

use super::client::Client;
use super::transaction::Transaction;
use crate::error::Error;
use crate::time::Timestamp;

impl Client {
    /// Queries the clock of the server for this key.
    pub(crate) async fn time(&self, key: &str) -> Result<Timestamp, Error> {
        match seconds(self.call("TIME", key, Vec::new()).await?) {
            Ok(time) => Ok(time),
            Err(error) => Err(self.distrust(key, error).await),
        }
    }
}

impl Transaction<'_> {
    /// Queries the server clock. This must be called before the transaction is executed.
    pub(crate) async fn time(&self) -> Result<Timestamp, Error> {
        let answer = self.call("TIME", Vec::new()).await?;
        seconds(answer).map_err(|error| self.distrust(error))
    }
}

/// Parses the seconds from the reply to `TIME`.
fn seconds(answer: Value) -> Result<Timestamp, FredError> {
    let parts: Vec<String> = answer.convert()?;
    let seconds = parts.first().and_then(|seconds| seconds.parse().ok());
    let no_time = || FredError::new(FredKind::Parse, "TIME returned no number");
    seconds.map(Timestamp::from_unix).ok_or_else(no_time)
}
