use tokio::time::sleep;

use super::store::{Document, DocumentStore};
use crate::error::Error;
use crate::time::backoff::Backoff;

/// Maximum number of attempts to replace a document.
const MAX_ATTEMPTS: u32 = 20;

/// Changes a document via read and replace. This will retry if the document has been replaced by another
/// process in the meantime, and returns `None` after 20 attempts.
///
/// `change` is called with the document, or with the error if it can't be read. It returns the outcome, and
/// either the new content, or `None` to leave the document unchanged.
///
/// # Errors
/// Returns an error if `change` fails, or if the store can't replace the document or does not confirm it.
pub async fn change_document<T>(
    store: &dyn DocumentStore,
    name: &str,
    mut change: impl FnMut(Result<Document, Error>) -> Result<(T, Option<Vec<u8>>), Error> + Send,
) -> Result<Option<T>, Error> {
    let mut backoff = Backoff::new();
    for _ in 0..MAX_ATTEMPTS {
        let read = store.read(name).await;
        let version = read.as_ref().map_or(0, |document| document.version);
        let (outcome, content) = change(read)?;
        let is_current = match content {
            Some(content) => store.replace(name, version, &content).await?.is_some(),
            None => true,
        };
        if is_current {
            return Ok(Some(outcome));
        }
        sleep(backoff.next()).await;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::MemoryStore;

    async fn increment(store: &MemoryStore) -> Option<u8> {
        let change = |document: Result<Document, Error>| {
            let number = document?.content.first().map_or(1, |number| number + 1);
            Ok((number, Some(vec![number])))
        };
        change_document(store, "number", change).await.expect("memory does not fail")
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_changes_are_all_applied() {
        let store = MemoryStore::new();
        let changes = (0..10).map(|_| increment(&store));
        let mut numbers = futures_util::future::join_all(changes).await;
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=10).map(Some).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_fails_after_too_many_conflicts() {
        let store = MemoryStore::new();
        let lost = change_document(&store, "number", |_| {
            futures_util::FutureExt::now_or_never(increment(&store)).expect("memory does not wait");
            Ok(((), Some(vec![0])))
        });
        assert_eq!(lost.await.expect("memory does not fail"), None);
    }
}
