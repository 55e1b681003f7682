//! The Redis HyperLogLog encoding.
//!
//! A header of 16 bytes: `HYLL`, the encoding (0 dense, 1 sparse), three unused bytes, and eight bytes of
//! cached cardinality, with the highest bit set if the cache is stale. Followed by either 6 bits per
//! register, lowest bits first, or run lengths: `00xxxxxx` is 1–64 zeros, `01xxxxxx yyyyyyyy` is 1–16384
//! zeros, `1vvvvvxx` is 1–4 registers with a rank of 1–32 (`hyperloglog.c`, Redis 7.0).

use std::fmt;

use super::{MAX_RANK, MAX_SPARSE_REGISTERS, REGISTERS, Register, Registers, Sketch, dense};

const HEADER: usize = 16;
const DENSE_BYTES: usize = HEADER + REGISTERS * 6 / 8;

/// An error returned if bytes are not a Redis HyperLogLog value.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SketchError {
    /// The 16-byte `HYLL` header is missing.
    Header,
    /// The encoding is not 0 or 1.
    Encoding(u8),
    /// The number of registers is not 2^14, or the value ends inside of a register.
    Length,
    /// A register has a rank above 51.
    Rank(u8),
}

pub(super) fn encode(registers: impl Iterator<Item = Register>) -> Vec<u8> {
    let mut bytes = vec![0; DENSE_BYTES];
    bytes[..4].copy_from_slice(b"HYLL");
    bytes[HEADER - 1] = 0x80;
    for Register { index, rank } in registers {
        let bit = usize::from(index) * 6;
        let [low, high] = (u16::from(rank) << (bit % 8)).to_le_bytes();
        bytes[HEADER + bit / 8] |= low;
        if high > 0 {
            bytes[HEADER + bit / 8 + 1] |= high;
        }
    }
    bytes
}

/// Maximum length of the sparse encoding in Redis, in bytes, excluding the header.
#[cfg(any(feature = "dump", feature = "_sql"))]
const MAX_SPARSE_BYTES: usize = 3000;

/// Encodes registers as run lengths. The registers must be in ascending order. Returns `None` if the result
/// is longer than [`MAX_SPARSE_BYTES`], or if a rank can't be encoded.
#[cfg(any(feature = "dump", feature = "_sql"))]
pub(super) fn encode_sparse(registers: impl Iterator<Item = Register>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    bytes[..4].copy_from_slice(b"HYLL");
    bytes[4] = 1;
    bytes[HEADER - 1] = 0x80;
    // The current run: `run` registers with the same rank, ending before `next`.
    let (mut next, mut rank, mut run) = (0, 0_u8, 0_u8);
    for register in registers {
        let index = usize::from(register.index);
        if register.rank > 32 {
            return None;
        }
        if index == next && register.rank == rank && (1..4).contains(&run) {
            run += 1;
            let last = bytes.len() - 1;
            bytes[last] += 1;
        } else {
            zeros(&mut bytes, index - next);
            bytes.push(0x80 | (register.rank - 1) << 2);
            (rank, run) = (register.rank, 1);
        }
        next = index + 1;
        if bytes.len() > HEADER + MAX_SPARSE_BYTES {
            return None;
        }
    }
    zeros(&mut bytes, REGISTERS - next);
    Some(bytes)
}

#[cfg(any(feature = "dump", feature = "_sql"))]
fn zeros(bytes: &mut Vec<u8>, run: usize) {
    let Some(rest) = run.checked_sub(1) else { return };
    let [low, high] = u16::try_from(rest).expect("at most 16,384 registers").to_le_bytes();
    if run <= 64 {
        bytes.push(low);
    } else {
        bytes.extend([0x40 | high, low]);
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Sketch, SketchError> {
    let (header, registers) = bytes.split_at_checked(HEADER).ok_or(SketchError::Header)?;
    match header {
        [b'H', b'Y', b'L', b'L', 0, ..] => decode_dense(registers),
        [b'H', b'Y', b'L', b'L', 1, ..] => decode_sparse(registers),
        [b'H', b'Y', b'L', b'L', encoding, ..] => Err(SketchError::Encoding(*encoding)),
        _ => Err(SketchError::Header),
    }
}

fn decode_dense(bytes: &[u8]) -> Result<Sketch, SketchError> {
    if bytes.len() != DENSE_BYTES - HEADER {
        return Err(SketchError::Length);
    }
    let mut ranks = vec![0; REGISTERS].into_boxed_slice();
    for (four, bytes) in ranks.chunks_exact_mut(4).zip(bytes.chunks_exact(3)) {
        let [a, b, c] = [bytes[0], bytes[1], bytes[2]];
        four.copy_from_slice(&[a & 0x3f, (a >> 6 | b << 2) & 0x3f, (b >> 4 | c << 4) & 0x3f, c >> 2]);
    }
    match ranks.iter().find(|rank| **rank > MAX_RANK) {
        Some(rank) => Err(SketchError::Rank(*rank)),
        None => Ok(Sketch(Registers::Dense(ranks))),
    }
}

fn decode_sparse(bytes: &[u8]) -> Result<Sketch, SketchError> {
    let (mut set, mut index) = (Vec::new(), 0);
    let mut bytes = bytes.iter().copied();
    while let Some(code) = bytes.next() {
        let low = usize::from(code & 0x3f);
        match code >> 6 {
            0 => index += low + 1,
            1 => index += (low << 8 | usize::from(bytes.next().ok_or(SketchError::Length)?)) + 1,
            _ => {
                for _ in 0..=code & 3 {
                    let position = u16::try_from(index).ok().filter(|_| index < REGISTERS);
                    set.push(Register {
                        index: position.ok_or(SketchError::Length)?,
                        rank: (code >> 2 & 0x1f) + 1,
                    });
                    index += 1;
                }
            }
        }
    }
    if index != REGISTERS {
        return Err(SketchError::Length);
    }
    Ok(Sketch(if set.len() > MAX_SPARSE_REGISTERS {
        Registers::Dense(dense(&set))
    } else {
        Registers::Sparse(set)
    }))
}

impl fmt::Display for SketchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("not a HyperLogLog: no `HYLL` header"),
            Self::Encoding(encoding) => write!(f, "unknown HyperLogLog encoding {encoding}"),
            Self::Length => f.write_str("a HyperLogLog with too few or too many registers"),
            Self::Rank(rank) => write!(f, "invalid HyperLogLog register rank {rank}"),
        }
    }
}

impl std::error::Error for SketchError {}

crate::log::debug::debug_in_full!(SketchError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(encoding: u8, registers: &[u8]) -> Vec<u8> {
        let mut bytes = b"HYLL".to_vec();
        bytes.push(encoding);
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(registers);
        bytes
    }

    #[test]
    fn invalid_redis_values_are_rejected() {
        for (bytes, error) in [
            (b"HYLL".to_vec(), SketchError::Header),
            (vec![b'x'; DENSE_BYTES], SketchError::Header),
            (value(2, &[]), SketchError::Encoding(2)),
            (value(0, &[0; 12]), SketchError::Length),
            (value(0, &[0xff; DENSE_BYTES - HEADER]), SketchError::Rank(63)),
            (value(1, &[0x40]), SketchError::Length),
            (value(1, &[0x7f, 0xff, 0x80]), SketchError::Length),
            (value(1, &[0x7f, 0xff, 0x00]), SketchError::Length),
        ] {
            assert_eq!(decode(&bytes), Err(error));
        }
    }

    #[test]
    fn sparse_values_are_decoded() {
        // Two zeros, three registers with rank 5, then zeros up to the end.
        let runs = [0x01, 0x80 | 4 << 2 | 2, 0x40 | 0x3f, 0xfa];
        let sketch = decode(&value(1, &runs)).expect("well formed");
        let expected: Sketch = (2..5).map(|index| Register { index, rank: 5 }).collect();
        assert_eq!(sketch, expected);
    }

    proptest! {
        #[test]
        fn decoding_never_panics(encoding in 0_u8..3, registers in prop::collection::vec(any::<u8>(), 0..14_000)) {
            let _ = decode(&value(encoding, &registers));
        }
    }
}
