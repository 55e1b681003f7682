//! The house rules that no compiler keeps: module order, imports, the size of files and folders, words and their
//! homes, prose, and documents that name code.

mod tree;
mod words;
mod order;
mod imports;
mod size;
mod prose;
mod documents;
