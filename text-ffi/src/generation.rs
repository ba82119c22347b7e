//! `{% generation %}` blocks, transformers' way of marking what the assistant wrote.
//!
//! minijinja has no custom tags, so the source is rewritten before it is compiled:
//!
//! ```text
//! {%- generation -%} ... {%- endgeneration %}
//! {%- with %}{% filter __generation -%} ... {%- endfilter %}{% endwith %}
//! ```
//!
//! and the filter puts the block between two private-use characters, which `split` takes out again. Block tags
//! keep the trim rules of whitespace as they are; `with` gives jinja2's inner scope (a bare `filter` leaks
//! `set`; `call` would not see `set ns.x = ...`).

pub const OPEN: char = '\u{10F8E0}';
pub const CLOSE: char = '\u{10F8E1}';
pub const FILTER: &str = "__generation";

/// A template's source, ready for minijinja.
pub struct Rewritten {
    pub source: String,
    pub has_generation: bool,
}

/// Rewrites generation tags outside `{% raw %}`, and line ends to `\n` as jinja2 does.
pub fn rewrite(source: &str) -> Rewritten {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + 64);
    let mut has_generation = false;
    let mut raw = false;
    let mut copied = 0; // source[..copied] is already in `out`
    let mut at = 0;
    while let Some(found) = source[at..].find("{%") {
        let tag = Tag::read(&source, at + found);
        match tag.word {
            "raw" => raw = true,
            "endraw" => raw = false,
            "generation" | "endgeneration" if !raw && tag.closed => {
                out.push_str(&source[copied..tag.name_start]);
                if tag.word == "generation" {
                    has_generation = true;
                    out.push_str(&format!(" with %}}{{% filter {FILTER} "));
                } else {
                    out.push_str(" endfilter %}{% endwith ");
                }
                copied = tag.name_end;
            }
            _ => {}
        }
        at = tag.name_end;
    }
    out.push_str(&source[copied..]);
    Rewritten { source: out, has_generation }
}

/// A `{% word` at a place in a source. Between `name_start` and `name_end` lies the word with its blanks, the
/// trim marks left outside.
struct Tag<'a> {
    word: &'a str,
    name_start: usize,
    name_end: usize,
    closed: bool, // nothing but the word inside the tag
}

impl<'a> Tag<'a> {
    fn read(source: &'a str, open: usize) -> Self {
        let after = |at: usize, skip: fn(u8) -> bool| {
            at + source.as_bytes()[at..].iter().take_while(|b| skip(**b)).count()
        };
        let mut name_start = open + 2;
        if source[name_start..].starts_with(['-', '+']) {
            name_start += 1;
        }
        let word_start = after(name_start, |b| b.is_ascii_whitespace());
        let word_end = after(word_start, |b| b.is_ascii_alphanumeric() || b == b'_');
        let name_end = after(word_end, |b| b.is_ascii_whitespace());
        let rest = &source[name_end..];
        let closed = rest.strip_prefix(['-', '+']).unwrap_or(rest).starts_with("%}");
        Tag { word: &source[word_start..word_end], name_start, name_end, closed }
    }
}

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
    fn rewrites_tags_with_their_trim_marks() {
        let r = rewrite("a{%- generation -%}b{% endgeneration +%}c");
        assert_eq!(r.source, "a{%- with %}{% filter __generation -%}b{% endfilter %}{% endwith +%}c");
        assert!(r.has_generation);
    }

    #[test]
    fn leaves_raw_blocks_and_other_tags_alone() {
        let source = "{% raw %}{% generation %}{% endraw %}{% generations %}{%\u{e9}";
        let r = rewrite(source);
        assert_eq!(r.source, source);
        assert!(!r.has_generation);
    }

    #[test]
    fn normalises_line_ends() {
        assert_eq!(rewrite("a\r\nb\rc").source, "a\nb\nc");
    }

    #[test]
    fn splits_marks_into_byte_ranges() {
        let marked = format!("\u{e9}{OPEN}ab{CLOSE}c{OPEN}{CLOSE}");
        assert_eq!(split(&marked), ("\u{e9}abc".to_string(), vec![(2, 4), (5, 5)]));
    }
}
