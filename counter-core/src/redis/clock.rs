use super::client::Client;
use super::transaction::Transaction;
use crate::{Error, ErrorKind, Timestamp};

impl Client {
    /// Asks the server of this key for its time.
    pub(crate) async fn time(&self, key: &str) -> Result<Timestamp, Error> {
        seconds(&self.call::<Vec<String>>("TIME", key, Vec::new()).await?)
    }
}

impl Transaction<'_> {
    /// Asks the server for its time before the transaction begins.
    pub(crate) async fn time(&self) -> Result<Timestamp, Error> {
        seconds(&self.call::<Vec<String>>("TIME", Vec::new()).await?)
    }
}

/// Returns the whole seconds of an answer to `TIME`.
fn seconds(answer: &[String]) -> Result<Timestamp, Error> {
    let seconds = answer.first().and_then(|seconds| seconds.parse().ok());
    let malformed = || Error::new(ErrorKind::Malformed { key: "TIME".to_owned() });
    seconds.map(Timestamp::from_unix).ok_or_else(malformed)
}
