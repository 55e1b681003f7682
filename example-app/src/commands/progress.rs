//! Progress bars for terminals.

use std::io::{self, IsTerminal, stderr};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a progress bar for a file that is read. If the file is compressed, the total is not known.
pub(crate) fn reading(file: &Path, is_compressed: bool) -> io::Result<ProgressBar> {
    if is_compressed {
        return Ok(writing(file));
    }
    if !stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::new(std::fs::metadata(file)?.len());
    let style = style("{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    Ok(bar.with_style(style).with_message(file.display().to_string()))
}

/// Returns a byte counter for a file of unknown size.
pub(crate) fn writing(file: &Path) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length().with_style(style("{msg} {bytes}, {bytes_per_sec}"));
    bar.with_message(file.display().to_string())
}

fn style(text: &str) -> ProgressStyle {
    ProgressStyle::with_template(text).expect("the template is valid")
}
