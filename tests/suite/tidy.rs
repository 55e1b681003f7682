//! House rules that the compiler does not check: module order, imports, the size of files and folders, words that
//! belong to one module, summaries, phrases, and documents that name code.

mod files;
mod tree;
mod words;
mod order;
mod imports;
mod size;
mod prose;
mod phrases;
mod documents;
