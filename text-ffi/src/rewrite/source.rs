//! Walks over a template's source: tags are read and written again, `{% generation %}` becomes a filter.
//!
//! ```text
//! {%- generation -%} ... {%- endgeneration %}
//! {%- with %}{% filter __generation -%} ... {%- endfilter %}{% endwith %}
//! ```
//!
//! Block tags keep the trim rules of whitespace as they are; `with` gives jinja2's inner scope (a bare `filter`
//! leaks `set`; `call` would not see `set ns.x = ...`).

use super::lexer::{self, Kind, Tag};
use super::statement::{self, Written};
use crate::generation::FILTER;

/// A template's source, ready for minijinja.
#[derive(Debug)]
pub struct Rewritten {
    pub source: String,
    pub has_generation: bool,
}

/// An error names what the template uses and hone does not have.
pub fn rewrite(source: &str) -> Result<Rewritten, String> {
    // jinja2's line ends.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let escapes = source.split('|').skip(1).any(|rest| {
        let name = rest.trim_start();
        ["e", "escape", "forceescape", "safe"]
            .contains(&&name[..name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len())])
    });
    let out = String::with_capacity(source.len() + 64);
    let mut walk = Walk { source: &source, out, has_generation: false, escapes };
    walk.run()?;
    Ok(Rewritten { source: walk.out, has_generation: walk.has_generation })
}

struct Walk<'a> {
    source: &'a str,
    out: String,
    has_generation: bool,
    escapes: bool,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(found) = self.source[at..].find('{') {
            let open = at + found;
            self.out.push_str(&self.source[at..open]);
            at = match self.source.as_bytes().get(open + 1) {
                Some(b'#') => {
                    self.copy(open, self.source[open..].find("#}").map_or(usize::MAX, |end| open + end + 2))
                }
                Some(b'{') => self.tag(open, "}}")?,
                Some(b'%') => self.tag(open, "%}")?,
                _ => self.copy(open, open + 1),
            };
        }
        self.out.push_str(&self.source[at..]);
        Ok(())
    }

    /// Copies the source from a place to another; returns the latter.
    fn copy(&mut self, from: usize, to: usize) -> usize {
        let to = to.min(self.source.len());
        self.out.push_str(&self.source[from..to]);
        to
    }

    fn tag(&mut self, open: usize, end: &str) -> Result<usize, String> {
        let sign = usize::from(self.source[open + 2..].starts_with(['-', '+']));
        let inside = open + 2 + sign;
        let Some(tag) = lexer::tag(self.source, inside, end)? else {
            // It does not read; minijinja says why.
            return Ok(self.copy(open, open + 2));
        };
        let word = tag.tokens.first().filter(|t| t.kind == Kind::Name).map_or("", |t| t.text.as_str());
        let bare = end == "%}" && tag.tokens.len() == 1;
        let written = match word {
            "raw" if bare => return Ok(self.raw(open, &tag)),
            "generation" if bare => {
                self.has_generation = true;
                Written::As(format!("with %}}{{% filter {FILTER}"))
            }
            "endgeneration" if bare => Written::As("endfilter %}{% endwith".into()),
            _ if end == "}}" => statement::write_expression(&tag.tokens, self.escapes),
            _ => statement::write(&tag.tokens, self.escapes),
        };
        let text = match written {
            Written::As(text) => text,
            Written::Same => return Ok(self.copy(open, tag.tag_end)),
            Written::NotHad(what) => return Err(what),
        };
        self.out.push_str(&self.source[open..inside]);
        self.out.push(' ');
        self.out.push_str(&text);
        self.out.push(' ');
        // Errors name lines: those of the source.
        let lines = |text: &str| text.bytes().filter(|b| *b == b'\n').count();
        let missing = lines(&self.source[inside..tag.inside_end]).saturating_sub(lines(&text));
        self.out.extend(std::iter::repeat_n('\n', missing));
        Ok(self.copy(tag.inside_end, tag.tag_end))
    }

    /// A raw block is copied whole. minijinja drops a line end behind `{% raw %}`, jinja2 does not.
    fn raw(&mut self, open: usize, tag: &Tag) -> usize {
        self.copy(open, tag.tag_end);
        let trims = self.source[tag.inside_end..].starts_with('-');
        if !trims && self.source[tag.tag_end..].starts_with('\n') {
            self.out.push('\n');
        }
        let mut at = tag.tag_end;
        while let Some(found) = self.source[at..].find("{%") {
            at += found + 2;
            let word = self.source[at..].trim_start_matches(['-', '+']).trim_start();
            if word.starts_with("endraw") {
                let end = self.source[at..].find("%}").map_or(self.source.len(), |end| at + end + 2);
                return self.copy(tag.tag_end, end);
            }
        }
        self.copy(tag.tag_end, self.source.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(source: &str) -> String {
        rewrite(source).map_or_else(|e| format!("! {e}"), |r| r.source)
    }

    #[test]
    fn generation_keeps_its_trim_marks() {
        let r = rewrite("a{%- generation -%}b{% endgeneration +%}c").unwrap();
        assert_eq!(r.source, "a{%- with %}{% filter __generation -%}b{% endfilter %}{% endwith +%}c");
        assert!(r.has_generation);
        let source = "{% raw %}{% generation %}{% endraw %}{% generations %}{% ?";
        assert_eq!(written(source), source);
        assert!(!rewrite(source).unwrap().has_generation);
    }

    #[test]
    fn operators_that_differ_become_calls() {
        assert_eq!(written("{{ a * b % c + 1 }}"), "{{ __rem(__mul(a, b), c) + 1 }}");
        assert_eq!(
            written("{{- x[::-1][0] ~ '\\U0001f600' }}"),
            "{{- __concat(__slice(x, none, none, -1)[0], \"\u{1f600}\") }}"
        );
        assert_eq!(written("{% if d.items is defined %}"), "{% if __attribute(d, \"items\") is defined %}");
        assert_eq!(written("{% for k, v in d.items() if k %}"), "{% for k, v in d.items() if k %}");
        assert_eq!(written("{{ 1, (2, 3), (4) }}"), "{{ (1, (2, 3), (4)) }}");
        assert_eq!(written("{{ (a) + (b) }}"), "{{ (a) + (b) }}");
    }

    #[test]
    fn line_ends_and_lines_stay() {
        assert_eq!(written("a\r\nb\rc"), "a\nb\nc");
        assert_eq!(written("{{ a\n % b }}").matches('\n').count(), 1);
        assert_eq!(written("{% raw %}\n{{ x"), "{% raw %}\n\n{{ x");
    }

    #[test]
    fn what_is_not_had_is_named() {
        assert!(written("{% do x %}").starts_with("! the tag do"));
        assert!(written("{{ '\\N{BULLET}' }}").starts_with("! \\N{...}"));
        assert!(written("{% macro m() %}{{ varargs }}{% endmacro %}").starts_with("! varargs"));
    }
}
