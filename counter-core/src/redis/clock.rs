use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::Value;

use super::client::Client;
use super::transaction::Transaction;
use crate::error::Error;
use crate::time::Timestamp;

impl Client {
    /// Asks the server of this key for its time.
    pub(crate) async fn time(&self, key: &str) -> Result<Timestamp, Error> {
        match seconds(self.call("TIME", key, Vec::new()).await?) {
            Ok(time) => Ok(time),
            Err(error) => Err(self.distrust(key, error).await),
        }
    }
}

impl Transaction<'_> {
    /// Asks the server for its time before the transaction begins.
    pub(crate) async fn time(&self) -> Result<Timestamp, Error> {
        let answer = self.call("TIME", Vec::new()).await?;
        seconds(answer).map_err(|error| self.distrust(error))
    }
}

/// Returns the whole seconds of an answer to `TIME`.
fn seconds(answer: Value) -> Result<Timestamp, FredError> {
    let parts: Vec<String> = answer.convert()?;
    let seconds = parts.first().and_then(|seconds| seconds.parse().ok());
    let no_time = || FredError::new(FredKind::Parse, "TIME returned no number");
    seconds.map(Timestamp::from_unix).ok_or_else(no_time)
}
