//! The house rules that no compiler keeps: module order, words and their homes, prose, and documents that
//! name code.

mod tree;
mod words;
mod order;
mod prose;
mod documents;
