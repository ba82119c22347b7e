//! Python's manners: how it binds arguments, orders and prints values, formats text.

pub mod arguments;
pub mod format_spec;
pub mod operators;
pub mod percent;
pub mod str_format;
pub mod text;
pub mod values;
