//! What Python knows of characters: blanks, line ends, cases, `repr`.

/// `str.isspace`: Unicode's white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `\w` of Python's re.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `str.splitlines(keepends)`.
pub fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some((at, c)) = rest.char_indices().find(|(_, c)| is_line_end(*c)) else {
            lines.push(rest);
            break;
        };
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        lines.push(&rest[..if keep_ends { end } else { at }]);
        rest = &rest[end..];
    }
    lines
}

/// The title case of a character: its upper case, but for ligatures and digraphs.
pub fn to_title(c: char) -> String {
    let special = match c {
        'Ǆ'..='ǆ' => "ǅ",
        'Ǉ'..='ǉ' => "ǈ",
        'Ǌ'..='ǌ' => "ǋ",
        'Ǳ'..='ǳ' => "ǲ",
        'ß' => "Ss",
        'ﬀ' => "Ff",
        'ﬁ' => "Fi",
        'ﬂ' => "Fl",
        'ﬃ' => "Ffi",
        'ﬄ' => "Ffl",
        'ﬅ' | 'ﬆ' => "St",
        _ => return c.to_uppercase().collect(),
    };
    special.into()
}

/// `str.capitalize`.
pub fn capitalize(text: &str) -> String {
    let Some(first) = text.chars().next() else { return String::new() };
    // The whole is lowered at once: a sigma looks at what stands before it.
    let lowered = text.to_lowercase();
    let skip: usize = first.to_lowercase().map(char::len_utf8).sum();
    to_title(first) + &lowered[skip..]
}

pub fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

/// `str.title`: a letter behind a letter is small.
pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        let cased = is_cased(c);
        match (cased, in_word) {
            (true, false) => out.push_str(&to_title(c)),
            (true, true) => out.extend(c.to_lowercase()),
            _ => out.push(c),
        }
        in_word = cased;
    }
    out
}

/// `str.isprintable` of one character. Rust's own tables have Python's rule (no control, format, surrogate,
/// private, unassigned or blank characters but the space); behind another character they show it.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut pair = [b'a', 0, 0, 0, 0];
    let size = c.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..=size]).is_ok_and(|pair| pair.escape_debug().nth(2).is_none())
}

fn push_escaped(out: &mut String, c: char) {
    match c as u32 {
        code @ ..=0xff => out.push_str(&format!("\\x{code:02x}")),
        code @ ..=0xffff => out.push_str(&format!("\\u{code:04x}")),
        code => out.push_str(&format!("\\U{code:08x}")),
    }
}

/// `repr(str)`.
pub fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => push_escaped(&mut out, c),
        }
    }
    out.push(quote);
    out
}

/// What `ascii()` makes of a `repr`.
pub fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            push_escaped(&mut out, c);
        }
    }
    out
}

/// Characters, which is how Python measures.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// The place in bytes of a character by its number, or the end.
pub fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repr_is_pythons() {
        let text = "it's \"q\" \\ \n\t\u{1}\u{7f}\u{a0}é\u{301}\u{200b}\u{e000}\u{1f600}";
        let python = "'it\\'s \"q\" \\\\ \\n\\t\\x01\\x7f\\xa0é\u{301}\\u200b\\ue000\u{1f600}'";
        assert_eq!(repr(text), python);
        assert_eq!(repr("it's"), "\"it's\"");
    }

    #[test]
    fn lines_and_cases_are_pythons() {
        assert_eq!(split_lines("a\r\nb\u{b}c\n\n", false), ["a", "b", "c", ""]);
        assert_eq!(split_lines("a\r\nb\r", true), ["a\r\n", "b\r"]);
        assert!(split_lines("", false).is_empty());
        assert_eq!(title("it's a-b 3x ﬁn"), "It'S A-B 3X Fin");
        assert_eq!(capitalize("ÀBC Σ"), "Àbc σ");
    }
}
