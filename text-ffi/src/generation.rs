//! `{% generation %}` blocks, transformers' way of marking what the assistant wrote.
//!
//! minijinja has no custom tags: `rewrite` makes a filter of the block, which puts it between two private-use
//! characters, and `split` takes them out again.

pub const OPEN: char = '\u{10F8E0}';
pub const CLOSE: char = '\u{10F8E1}';
pub const FILTER: &str = "__generation";

/// Takes the marks out of a rendered text; what lay between them comes back as byte ranges of the result.
pub fn split(marked: &str) -> (String, Vec<(usize, usize)>) {
    let mut text = String::with_capacity(marked.len());
    let mut spans = Vec::new();
    let mut open = Vec::new();
    for c in marked.chars() {
        match c {
            OPEN => open.push(text.len()),
            CLOSE => spans.extend(open.pop().map(|begin| (begin, text.len()))),
            c => text.push(c),
        }
    }
    (text, spans)
}

/// True when `text` holds one of the two marks, which would be mistaken for a block's border.
pub fn holds_mark(text: &str) -> bool {
    text.contains([OPEN, CLOSE])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_marks_into_byte_ranges() {
        let marked = format!("\u{e9}{OPEN}ab{CLOSE}c{OPEN}{CLOSE}");
        assert_eq!(split(&marked), ("\u{e9}abc".to_string(), vec![(2, 4), (5, 5)]));
    }
}
