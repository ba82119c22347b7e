// The Rust archive as a library of its own has no code beside the archive's.
