//! Signals that stop a command.

use std::error::Error;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns the signals that stop the program.
pub(crate) fn stop_signals() -> io::Result<[Signal; 2]> {
    Ok([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?])
}

/// Runs a step of the command. Returns `None` if a signal stops the program.
pub(crate) async fn unless_stopped<T>(
    stop: &mut Option<[Signal; 2]>,
    step: impl Future<Output = Result<T, Box<dyn Error>>>,
) -> Result<Option<T>, Box<dyn Error>> {
    let Some([interrupt, terminate]) = stop else { return step.await.map(Some) };
    tokio::select! {
        done = step => done.map(Some),
        _ = interrupt.recv() => Ok(None),
        _ = terminate.recv() => Ok(None),
    }
}
