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
            Err(error) => Err(self.reject_reply(key, error).await),
        }
    }
}

impl Transaction<'_> {
    /// Queries the server clock. This must be called before the transaction is executed.
    pub(crate) async fn time(&self) -> Result<Timestamp, Error> {
        let reply = self.call("TIME", Vec::new()).await?;
        seconds(reply).map_err(|error| self.reject_reply(error))
    }
}

/// Parses the seconds from the reply to `TIME`.
fn seconds(reply: Value) -> Result<Timestamp, FredError> {
    let parts: Vec<String> = reply.convert()?;
    let seconds = parts.first().and_then(|seconds| seconds.parse().ok());
    let no_time = || FredError::new(FredKind::Parse, "TIME did not return a number");
    seconds.map(Timestamp::from_unix).ok_or_else(no_time)
}
