//! Runs the site and stores the counts in a file, in Redis, or in a database.

mod lines;
mod problem;
mod retry;
mod flags;
mod commands;
mod serve;

use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::process::ExitCode;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "kafka")]
use commands::consume;
#[cfg(feature = "manual")]
use commands::manual;
use commands::{dump, health, import, restore};
use lines::Lines;
use problem::explain;
use serve::settings;
use serve::site::serve;

/// A small site with a forum that counts visits, views and likes.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = STORES)]
struct Settings {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    site: settings::Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(Box<import::Settings>),
    Dump(dump::Settings),
    Restore(restore::Settings),
    Health(health::Settings),
    #[cfg(feature = "kafka")]
    Consume(Box<consume::Settings>),
    #[cfg(feature = "manual")]
    Manual(manual::Settings),
}

/// Examples of store URLs, for the help.
const STORES: &str = "\
Stores:
  sqlite:counts.db                  a file, which is created
  redis://127.0.0.1:6379            Redis; redis-cluster:// for a cluster
  postgres://user@127.0.0.1/site    PostgreSQL
  mysql://user@127.0.0.1/site       MariaDB
  memory:                           lost on exit";

/// Length of the longest name of an environment variable.
const VARIABLE_WIDTH: usize = "COUNTER_ARCHIVE_INTERVAL".len();

#[tokio::main]
async fn main() -> ExitCode {
    let matches = with_variables(with_negative_numbers(Settings::command())).get_matches();
    let mut settings = Settings::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outputs = Lines::to(stdout()).and_then(|output| Ok((output, Lines::to(stderr())?)));
    let Ok(((output, _output_guard), (mut log, _log_guard))) = outputs else {
        return ExitCode::FAILURE;
    };
    let lines = log.clone();
    tracing_subscriber::fmt().with_ansi(stderr().is_terminal()).with_writer(move || lines.clone()).init();
    // The default hook would block if nothing reads the log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let result = match settings.command.take() {
        Some(Command::Import(settings)) => import::run(*settings).await,
        Some(Command::Dump(settings)) => dump::run(settings).await,
        Some(Command::Restore(settings)) => restore::run(settings).await,
        Some(Command::Health(settings)) => health::run(settings).await,
        #[cfg(feature = "kafka")]
        Some(Command::Consume(settings)) => consume::run(*settings).await,
        #[cfg(feature = "manual")]
        Some(Command::Manual(settings)) => manual::run(&settings, Settings::command()),
        None => serve(settings.site, output).await,
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(log, "example-app: {}", explain(&*error));
    ExitCode::FAILURE
}

/// Reads numbers below 0 as the value of an option, so that its parser can say what it expects.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let with_numbers = |arg: Arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    };
    command.mut_args(with_numbers).mut_subcommands(with_negative_numbers)
}

/// Lists the environment variables in a separate column of the help, instead of at the end of the lines.
fn with_variables(command: clap::Command) -> clap::Command {
    let with_variable = |arg: Arg| {
        let Some(help) = arg.get_help().filter(|_| arg.get_help_heading().is_some()) else { return arg };
        let variable = arg.get_env().unwrap_or_default().to_string_lossy();
        let help = format!("{variable:<VARIABLE_WIDTH$} {help}");
        arg.help(help).hide_env(true)
    };
    command.mut_args(with_variable).mut_subcommands(with_variables)
}
