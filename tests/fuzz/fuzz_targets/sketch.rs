//! Arbitrary bytes as the value of a HyperLogLog key.
//!
//! The first byte of an input determines the meaning of the rest: `s` for the runs of a sparse value, `d` for
//! the registers of a dense value, which are repeated if needed. Otherwise, the rest is the whole value.
#![no_main]

use counter_core::sketch::Sketch;
use libfuzzer_sys::fuzz_target;

/// 2^14 registers with 6 bits.
const DENSE: usize = 12_288;

fuzz_target!(|input: &[u8]| {
    let value = match input.split_first() {
        Some((b's', runs)) => value(1, runs.iter().copied()),
        Some((b'd', registers)) => value(0, registers.iter().copied().cycle().take(DENSE)),
        Some((_, all)) => all.to_vec(),
        None => Vec::new(),
    };
    let sketch = match Sketch::from_redis(&value) {
        Ok(sketch) => sketch,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let dense = sketch.to_redis();
    assert_eq!(dense.len(), 16 + DENSE);
    let again = Sketch::from_redis(&dense).expect("our own value");
    assert_eq!(again, sketch);
    assert_eq!((again.to_redis(), again.estimate()), (dense, sketch.estimate()));
    assert!(sketch.registers().is_sorted_by(|one, other| one.index() < other.index()));
    for register in sketch.registers() {
        assert!(register.index() < 1 << 14 && (1..=51).contains(&register.rank()), "{register:?}");
    }
    let mut merged = sketch.clone();
    merged.merge(&again);
    assert_eq!(merged, sketch);
});

fn value(encoding: u8, registers: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut value = b"HYLL".to_vec();
    value.push(encoding);
    value.resize(16, 0);
    value.extend(registers);
    value
}
