/// Returns a version for a document: a random number.
///
/// A failover can take the store back to a document from before the last replacements. If versions were counted, the next
/// ones would repeat, and a process could replace a document that it has not read.
///
/// # Panics
/// Panics when the operating system has no randomness to give.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    // SQL has signed numbers, and 0 stands for no document.
    (u64::from_le_bytes(bytes) >> 1).max(1)
}
