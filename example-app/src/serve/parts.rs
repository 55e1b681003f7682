//! Background tasks that run alongside the server.

use std::collections::HashMap;
use std::error::Error;
use std::future::pending;
use std::pin::Pin;

use tokio::sync::watch::{Sender, channel};
use tokio::task::{Id, JoinSet};

/// Result of a task.
pub(super) type TaskResult = Result<(), Box<dyn Error + Send + Sync>>;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Tasks that have not been started yet.
pub(super) struct Parts {
    parts: Vec<(&'static str, BoxFuture<TaskResult>)>,
    stop: Sender<()>,
}

/// Running tasks.
pub(super) struct Running {
    tasks: JoinSet<TaskResult>,
    names: HashMap<Id, &'static str>,
    stop: Sender<()>,
}

impl Parts {
    /// Creates an empty list.
    pub(super) fn new() -> Self {
        Self { parts: Vec::new(), stop: channel(()).0 }
    }

    /// Adds a task. `part` is called with a future that completes when the task should stop.
    pub(super) fn add<P>(&mut self, name: &'static str, part: impl FnOnce(BoxFuture<()>) -> P)
    where
        P: Future<Output = TaskResult> + Send + 'static,
    {
        let mut stop = self.stop.subscribe();
        // The sender never sends a value. Dropping it is the signal to stop.
        let stopped = Box::pin(async move { drop(stop.changed().await) });
        self.parts.push((name, Box::pin(part(stopped))));
    }

    /// Starts all tasks.
    pub(super) fn start(self) -> Running {
        let mut tasks = JoinSet::new();
        let names = self.parts.into_iter().map(|(name, part)| (tasks.spawn(part).id(), name)).collect();
        Running { tasks, names, stop: self.stop }
    }
}

impl Running {
    /// Waits for a task to end unexpectedly, and returns its name.
    pub(super) async fn ended(&mut self) -> &'static str {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, _))) => id,
            Some(Err(error)) => error.id(),
            None => pending().await,
        };
        self.names[&id]
    }

    /// Stops all tasks, and waits for their results.
    ///
    /// # Errors
    ///
    /// Returns the first error, but only when all tasks have ended.
    pub(super) async fn stop(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.stop);
        let mut all: TaskResult = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            all = all.and(ended.unwrap_or_else(|panicked| Err(panicked.into())));
        }
        all.map_err(|error| error as Box<dyn Error>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_run_until_stopped_and_all_end() {
        let mut parts = Parts::new();
        let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
        for (name, result) in [("one", Err("disk".into())), ("other", Ok(()))] {
            let sender = sender.clone();
            parts.add(name, |stopped| async move {
                stopped.await;
                sender.send(name).expect("the test reads it");
                result
            });
        }
        let mut running = parts.start();
        tokio::task::yield_now().await;
        assert!(ended.try_recv().is_err());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, running.ended()).await.is_err());
        assert_eq!(running.stop().await.map_err(|error| error.to_string()), Err("disk".to_owned()));
        drop(sender);
        let mut names = Vec::new();
        assert_eq!(ended.recv_many(&mut names, 3).await, 2);
    }

    #[tokio::test]
    async fn ended_returns_the_name_of_a_task_that_exits_or_panics() {
        for panics in [false, true] {
            let mut parts = Parts::new();
            parts.add("patient", |stopped| async move {
                stopped.await;
                Ok(())
            });
            parts.add("hasty", |_| async move {
                assert!(!panics, "hasty");
                Ok(())
            });
            let mut running = parts.start();
            assert_eq!(running.ended().await, "hasty");
            assert!(running.stop().await.is_ok());
        }
    }
}
