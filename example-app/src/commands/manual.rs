//! The `manual` command: writes man pages and shell completions, to be included in a package.

use std::error::Error;
use std::fs::create_dir_all;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::problem::At;

/// Write man pages and shell completions.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Directory to write to, which is created.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// # Errors
///
/// Returns an error if a file can't be written.
pub(crate) fn run(settings: &Settings, program: Command) -> Result<(), Box<dyn Error>> {
    let directory = &*settings.directory;
    create_dir_all(directory).at(directory.display())?;
    let name = program.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut program.clone(), &*name, directory)?;
    }
    Ok(clap_mangen::generate_to(program, directory)?)
}
