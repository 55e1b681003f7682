//! Runs the site and stores the counts in a file, in Redis, or in a database.

mod lines;
mod retry;
mod flags;
mod commands;
mod serve;

use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "kafka")]
use commands::consume;
use commands::{dump, import, restore};
use flags::store::error_chain;
use lines::Lines;
use serve::settings;
use serve::site::serve;

/// A small site with a forum that counts visits, views and likes.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Settings {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    site: settings::Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::Settings),
    Dump(dump::Settings),
    Restore(restore::Settings),
    #[cfg(feature = "kafka")]
    Consume(consume::Settings),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut settings = Settings::parse();
    let outputs = Lines::to(stdout()).and_then(|output| Ok((output, Lines::to(stderr())?)));
    let Ok(((output, _output_guard), (mut log, _log_guard))) = outputs else {
        return ExitCode::FAILURE;
    };
    let lines = log.clone();
    tracing_subscriber::fmt().with_ansi(stderr().is_terminal()).with_writer(move || lines.clone()).init();
    // The default hook would block if nothing reads the log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let result = match settings.command.take() {
        Some(Command::Import(settings)) => import::run(settings).await,
        Some(Command::Dump(settings)) => dump::run(settings).await,
        Some(Command::Restore(settings)) => restore::run(settings).await,
        #[cfg(feature = "kafka")]
        Some(Command::Consume(settings)) => consume::run(settings).await,
        None => serve(settings.site, output).await,
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(log, "example-app: {}", error_chain(&*error));
    ExitCode::FAILURE
}
