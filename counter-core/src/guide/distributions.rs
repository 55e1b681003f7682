//! Distributions: how long requests took, how large their responses were, and how they ended.
