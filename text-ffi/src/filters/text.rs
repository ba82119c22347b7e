//! Filters of texts.

use super::{soft_text, Filter};
use crate::python::arguments::{bind, invalid, sane_width, split};
use crate::python::format_spec::padded;
use crate::python::percent;
use crate::python::text::{byte_of, capitalize, is_space, is_word, split_lines, width};
use minijinja::value::Tuple;
use minijinja::{Error, State, Value};
use onig::Regex;
use std::sync::OnceLock;

pub const FILTERS: &[(&str, Filter)] = &[
    ("capitalize", |_, v, _| Ok(Value::from(capitalize(&soft_text(v)?)))),
    ("center", center),
    ("format", format),
    ("indent", indent),
    ("lower", |_, v, _| Ok(Value::from(soft_text(v)?.to_lowercase()))),
    ("replace", replace),
    ("title", |_, v, _| Ok(Value::from(title(&soft_text(v)?)))),
    ("trim", trim),
    ("truncate", truncate),
    ("upper", |_, v, _| Ok(Value::from(soft_text(v)?.to_uppercase()))),
    ("wordcount", wordcount),
    ("wordwrap", wordwrap),
];

/// CPython's `str.center`: an odd blank is on the left where the width is odd.
pub fn centered(text: &str, size: usize, fill: char) -> String {
    let missing = size.saturating_sub(width(text));
    let left = missing / 2 + (missing & size & 1);
    let fills = |n: usize| std::iter::repeat_n(fill, n);
    fills(left).chain(text.chars()).chain(fills(missing - left)).collect()
}

fn center(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("center", &["width"], given)?;
    let size = sane_width(given.integer(0, 80)?)?;
    Ok(Value::from(centered(&soft_text(value)?, size, ' ')))
}

fn format(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let (positional, named) = split(given)?;
    if !positional.is_empty() && !named.is_empty() {
        return Err(invalid("can't handle positional and keyword arguments at the same time"));
    }
    let values = match named.is_empty() {
        true => Value::from(Tuple::from(positional.to_vec())),
        false => Value::from_pairs(named),
    };
    percent::format(&soft_text(value)?, &values).map(Value::from)
}

// indent(s, width=4, first=False, blank=False)
fn indent(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("indent", &["width", "first", "blank"], given)?;
    let indention = match given.get(0).and_then(Value::as_str) {
        Some(text) => text.to_string(),
        None => " ".repeat(sane_width(given.integer(0, 4)?)?),
    };
    let text = value.as_str().ok_or_else(|| invalid("indent() needs a string"))?.to_string() + "\n";
    let mut out = if given.truth(1, false) { indention.clone() } else { String::new() };
    for (i, line) in split_lines(&text, false).into_iter().enumerate() {
        if i > 0 {
            out.push('\n');
            if given.truth(2, false) || !line.is_empty() {
                out.push_str(&indention);
            }
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// `str.replace(old, new, count)`; below zero is no limit.
pub fn replaced(text: &str, old: &str, new: &str, count: i64) -> String {
    match usize::try_from(count) {
        Ok(count) => text.replacen(old, new, count),
        Err(_) => text.replace(old, new),
    }
}

fn replace(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("replace", &["old", "new", "count"], given)?;
    let count = if given.some(2).is_some() { given.integer(2, -1)? } else { -1 };
    let (old, new) = (soft_text(given.required(0)?)?, soft_text(given.required(1)?)?);
    Ok(Value::from(replaced(&soft_text(value)?, &old, &new, count)))
}

/// Words begin behind blanks, hyphens and opening brackets.
fn title(text: &str) -> String {
    let separates = |c: char| is_space(c) || "-({[<".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let inside = separates(first);
        let end = rest.find(|c| separates(c) != inside).unwrap_or(rest.len());
        let (head, tail) = rest[..end].split_at(first.len_utf8());
        out.push_str(&head.to_uppercase());
        out.push_str(&tail.to_lowercase());
        rest = &rest[end..];
    }
    out
}

fn trim(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("trim", &["chars"], given)?;
    let text = soft_text(value)?;
    Ok(Value::from(match given.some(0) {
        Some(_) => {
            let set = given.text(0, "")?;
            text.trim_matches(|c| set.contains(c))
        }
        None => text.trim_matches(is_space),
    }))
}

// truncate(s, length=255, killwords=False, end='...', leeway=5)
fn truncate(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("truncate", &["length", "killwords", "end", "leeway"], given)?;
    let text = value.as_str().ok_or_else(|| invalid("truncate() needs a string"))?;
    let length = given.integer(0, 255)?;
    let end = given.text(2, "...")?;
    let leeway = if given.some(3).is_some() { given.integer(3, 5)? } else { 5 };
    let keep = length - width(end) as i64;
    if keep < 0 || leeway < 0 {
        return Err(invalid(format!(
            "truncate(): a length of {length} for the end '{end}', a leeway of {leeway}"
        )));
    }
    if width(text) as i64 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let cut = &text[..byte_of(text, keep as usize)];
    let kept = if given.truth(1, false) { cut } else { cut.rsplit_once(' ').map_or(cut, |(kept, _)| kept) };
    Ok(Value::from(format!("{kept}{end}")))
}

fn wordcount(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("wordcount", &[], given)?;
    let text = soft_text(value)?;
    Ok(Value::from(text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count()))
}

// wordwrap(s, width=79, break_long_words=True, wrapstring='\n', break_on_hyphens=True)
fn wordwrap(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let names = &["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let given = bind("wordwrap", names, given)?;
    let size = sane_width(given.integer(0, 79)?)?;
    if size == 0 {
        return Err(invalid("wordwrap() needs a width above 0"));
    }
    let wrap = if given.some(2).is_some() { given.text(2, "\n")? } else { "\n" };
    let text = value.as_str().ok_or_else(|| invalid("wordwrap() needs a string"))?;
    let how =
        Wrapping { size, break_long_words: given.truth(1, true), break_on_hyphens: given.truth(3, true) };
    let paragraphs: Vec<String> =
        split_lines(text, false).into_iter().map(|line| how.wrap(line).join(wrap)).collect();
    Ok(Value::from(paragraphs.join(wrap)))
}

/// textwrap.TextWrapper of Python, with whitespace kept as it is.
struct Wrapping {
    size: usize,
    break_long_words: bool,
    break_on_hyphens: bool,
}

impl Wrapping {
    fn chunks<'a>(&self, text: &'a str) -> Vec<&'a str> {
        const BLANK: &str = r"[\t\n\x0b\x0c\r ]";
        const NO_BLANK: &str = r"[^\t\n\x0b\x0c\r ]";
        const PUNCTUATED: &str = r#"[\w!"'&.,?]"#;
        const LETTER: &str = r"[^\d\W]";
        static WITH_HYPHENS: OnceLock<Option<Regex>> = OnceLock::new();
        static SIMPLE: OnceLock<Option<Regex>> = OnceLock::new();
        let found = if self.break_on_hyphens {
            WITH_HYPHENS.get_or_init(|| {
                let word = format!(
                    "{NO_BLANK}+?(?:-(?:(?<={LETTER}{LETTER}-)|(?<={LETTER}-{LETTER}-))(?={LETTER}-?{LETTER})\
                     |(?={BLANK}|\\z)|(?<={PUNCTUATED})(?=-{{2,}}\\w))"
                );
                Regex::new(&format!("{BLANK}+|(?<={PUNCTUATED})-{{2,}}(?=\\w)|{word}")).ok()
            })
        } else {
            SIMPLE.get_or_init(|| Regex::new(&format!("{BLANK}+")).ok())
        };
        let mut chunks = Vec::new();
        let mut at = 0;
        for (begin, end) in found.iter().flat_map(|regex| regex.find_iter(text)) {
            chunks.extend([&text[at..begin], &text[begin..end]]);
            at = end;
        }
        chunks.push(&text[at..]);
        chunks.retain(|chunk| !chunk.is_empty());
        chunks
    }

    fn wrap(&self, text: &str) -> Vec<String> {
        let blank = |chunk: &str| chunk.trim_matches(is_space).is_empty();
        let mut chunks = self.chunks(text);
        chunks.reverse();
        let mut lines: Vec<String> = Vec::new();
        while !chunks.is_empty() {
            if !lines.is_empty() && chunks.last().is_some_and(|chunk| blank(chunk)) {
                chunks.pop();
            }
            let mut line: Vec<&str> = Vec::new();
            let mut used = 0;
            while let Some(chunk) = chunks.last().filter(|chunk| used + width(chunk) <= self.size) {
                used += width(chunk);
                line.push(chunk);
                chunks.pop();
            }
            if chunks.last().is_some_and(|chunk| width(chunk) > self.size) {
                self.cut_long(&mut chunks, &mut line, self.size - used);
            }
            if line.last().is_some_and(|chunk| blank(chunk)) {
                line.pop();
            }
            if !line.is_empty() {
                lines.push(line.concat());
            }
        }
        lines
    }

    fn cut_long<'a>(&self, chunks: &mut Vec<&'a str>, line: &mut Vec<&'a str>, left: usize) {
        let Some(chunk) = chunks.last_mut() else { return };
        if !self.break_long_words {
            if line.is_empty() {
                line.push(chunk);
                chunks.pop();
            }
            return;
        }
        let mut end = byte_of(chunk, left);
        if self.break_on_hyphens && width(chunk) > left {
            if let Some(hyphen) = chunk[..end].rfind('-').filter(|at| chunk[..*at].contains(|c| c != '-')) {
                end = hyphen + 1;
            }
        }
        let (head, tail) = chunk.split_at(end);
        line.push(head);
        *chunk = tail;
    }
}

/// `str.ljust` and `str.rjust`.
pub fn justified(text: &str, size: usize, fill: char, align: char) -> String {
    padded(text, fill, align, size)
}
