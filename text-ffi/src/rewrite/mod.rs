//! The source of a template, written again for minijinja where jinja2 reads it otherwise.

mod expression;
mod lexer;
mod source;
mod statement;

pub use source::rewrite;
