/// Returns a random document version.
///
/// A failover can roll the store back to an earlier document. If versions were sequential, they would then be
/// reused, and a process might replace a document that it has never read.
///
/// # Panics
/// Panics if the operating system can't provide random bytes.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    // SQL integers are signed, and 0 means that the document does not exist.
    (u64::from_le_bytes(bytes) >> 1).max(1)
}
