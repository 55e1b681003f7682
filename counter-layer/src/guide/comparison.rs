#![doc = include_str!("../../docs/comparison.md")]
