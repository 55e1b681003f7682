//! File identity on the file system, used to detect copies.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The inode of a file, and the creation time in nanoseconds (0 if not supported by the file system).
///
/// Neither changes if the file is renamed, the process ends, or the volume is mounted elsewhere. For a copy,
/// both are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    inode: u64,
    created: u128,
}

impl FileId {
    pub(crate) async fn of(path: &Path) -> io::Result<Self> {
        let metadata = tokio::fs::metadata(path).await?;
        let created = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(Self { inode: inode(&metadata), created: created.unwrap_or_default().as_nanos() })
    }

    /// Returns `true` if this is a copy of the file with the identity `written`, or `false` if the text is
    /// empty.
    ///
    /// Some network file systems renumber files on mount, so a different inode is not enough to detect a
    /// copy.
    pub(crate) fn is_copy_of(self, written: &str) -> bool {
        let Some((inode, created)) = written.split_once(':') else { return false };
        let has_other_time = self.created == 0 || created.parse() != Ok(self.created);
        inode.parse() != Ok(self.inode) && has_other_time
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.inode, self.created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::writer::WriterId;

    #[tokio::test]
    async fn renaming_preserves_the_file_id_but_copying_does_not() {
        let folder = std::env::temp_dir().join(WriterId::random().to_string());
        std::fs::create_dir(&folder).expect("writable");
        let [file, renamed, copy] = ["file", "renamed", "copy"].map(|name| folder.join(name));
        std::fs::write(&file, "rows").expect("writable");
        let written = FileId::of(&file).await.expect("readable").to_string();
        std::fs::rename(&file, &renamed).expect("on one disk");
        std::fs::copy(&renamed, &copy).expect("writable");
        assert!(!FileId::of(&renamed).await.expect("readable").is_copy_of(&written));
        let copied = FileId::of(&copy).await.expect("readable");
        assert!(copied.is_copy_of(&written) && !copied.is_copy_of(""));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
