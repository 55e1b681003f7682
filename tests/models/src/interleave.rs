use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::advance;

use crate::choices::Choices;

/// A part of a process that runs concurrently with others.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Time between two steps. A backoff is shorter, so its jitter does not matter.
const STEP: Duration = Duration::from_secs(3);

/// Runs tasks in steps from one pending call to the next, in any order. `is_killed` is called before each
/// step with the index of the task, and ends the task if it returns `true`. Returns the results, with `None`
/// for a task that was killed.
pub async fn interleave<'a, T, const N: usize>(
    choices: &Choices,
    tasks: [Task<'a, T>; N],
    mut is_killed: impl FnMut(usize) -> bool,
) -> [Option<T>; N] {
    let mut results = [const { None }; N];
    let mut tasks = tasks.map(Some);
    loop {
        let running: Vec<_> = (0..N).filter(|which| tasks[*which].is_some()).collect();
        if running.is_empty() {
            return results;
        }
        let which = choices.one_of(&running);
        if is_killed(which) {
            tasks[which] = None;
            continue;
        }
        let Some(task) = &mut tasks[which] else { continue };
        if let Poll::Ready(result) = poll_fn(|context| Poll::Ready(task.as_mut().poll(context))).await {
            choices.note(format!("task {which} ends"));
            (tasks[which], results[which]) = (None, Some(result));
        } else {
            choices.note(format!("task {which} continues"));
        }
        advance(STEP).await;
    }
}
