//! Files that only their owner may read and write, because they contain salts and counts.

use std::fs::OpenOptions;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
#[cfg(feature = "sqlite")]
use std::path::Path;

/// Returns the options that create a private file, and fail if there is a file.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

/// Accepts that there was a file already, whose mode does not change.
pub(crate) fn or_existing<T>(created: io::Result<T>) -> io::Result<()> {
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a database file for SQLite, which creates the log and the index with the same mode. Ignores errors, because
/// SQLite tries to create the file as well and reports its own.
#[cfg(feature = "sqlite")]
pub(crate) fn create_database(path: &Path) {
    // A database in memory has such a name.
    if !path.as_os_str().as_encoded_bytes().starts_with(b"file:") && path != Path::new(":memory:") {
        drop(or_existing(options().open(path)));
    }
}
