//! Files that can only be accessed by the owner, because they contain salts and counts.

use std::fs::OpenOptions;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
#[cfg(feature = "sqlite")]
use std::path::Path;

/// Returns the options to create a private file. Opening will fail if the file already exists.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

/// Ignores the error if the file already exists. In this case the mode does not change.
pub(crate) fn or_existing<T>(created: io::Result<T>) -> io::Result<()> {
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates an SQLite database file. SQLite will then use the same mode for the log and the index. Errors are
/// ignored because SQLite also tries to create the file, and will report the error.
#[cfg(feature = "sqlite")]
pub(crate) fn create_database(path: &Path) {
    // These are the names of in-memory databases.
    if !path.as_os_str().as_encoded_bytes().starts_with(b"file:") && path != Path::new(":memory:") {
        drop(or_existing(options().open(path)));
    }
}
