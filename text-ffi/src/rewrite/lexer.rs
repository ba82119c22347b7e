//! The tokens inside a tag, as jinja2's lexer has them.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Name,
    Number,
    Text, // of a string, its escapes resolved
    Operator,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub text: String,
}

/// The tokens of a tag whose inside begins at `at`, and where `end` ("}}" or "%}") or its sign begins. An error is a
/// feature that hone does not have; None is a tag that does not read.
pub struct Tag {
    pub tokens: Vec<Token>,
    pub inside_end: usize,
    pub tag_end: usize,
}

const OPERATORS: [&str; 28] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", "<", ">",
    "=", ".", ":", "|", ",", ";", "!", "?",
];

pub fn tag(source: &str, mut at: usize, end: &str) -> Result<Option<Tag>, String> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut open = 0usize;
    loop {
        let rest = &source[at..];
        let Some(c) = rest.chars().next() else { return Ok(None) };
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        if open == 0 {
            let sign = usize::from(rest.starts_with(['-', '+']));
            if rest[sign..].starts_with(end) {
                return Ok(Some(Tag { tokens, inside_end: at, tag_end: at + sign + end.len() }));
            }
        }
        let (kind, text, size) = if c == '\'' || c == '"' {
            let Some((text, size)) = string(rest, c)? else { return Ok(None) };
            (Kind::Text, text, size)
        } else if c.is_ascii_digit() {
            let member = tokens.last().is_some_and(|last| last.kind == Kind::Operator && last.text == ".");
            let size = number(rest, member);
            (Kind::Number, rest[..size].replace('_', ""), size)
        } else if c.is_alphabetic() || c == '_' {
            let size = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if !rest[..size].is_ascii() {
                return Err(format!("the name {}, which is not ASCII", &rest[..size]));
            }
            (Kind::Name, rest[..size].to_string(), size)
        } else {
            let Some(operator) = OPERATORS.iter().find(|one| rest.starts_with(**one)) else {
                return Ok(None);
            };
            match *operator {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open = open.saturating_sub(1),
                _ => {}
            }
            (Kind::Operator, operator.to_string(), operator.len())
        };
        tokens.push(Token { kind, text });
        at += size;
    }
}

fn number(text: &str, member: bool) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize, radix: u32| {
        let inside = |b: &&u8| char::from(**b).is_digit(radix) || **b == b'_';
        from + bytes[from.min(bytes.len())..].iter().take_while(inside).count()
    };
    if member {
        return digits(0, 10);
    }
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if text.starts_with(prefix) {
            return digits(2, radix);
        }
    }
    let mut end = digits(0, 10);
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1, 10);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign, 10);
        }
    }
    end
}

/// The text of a string that begins with its quote, and its size in the source; None: it does not end.
fn string(source: &str, quote: char) -> Result<Option<(String, usize)>, String> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        let Some(c) = source[at..].chars().next() else { return Ok(None) };
        at += c.len_utf8();
        if c == quote {
            return Ok(Some((text, at)));
        }
        if c != '\\' {
            text.push(c);
            continue;
        }
        let Some(c) = source[at..].chars().next() else { return Ok(None) };
        at += c.len_utf8();
        let hex = |digits: usize| {
            let code = source.get(at..at + digits).and_then(|code| u32::from_str_radix(code, 16).ok());
            code.and_then(char::from_u32).map(|c| (c, digits))
        };
        let found = match c {
            '\n' => continue,
            '\\' | '\'' | '"' => Some((c, 0)),
            'a' => Some(('\u{7}', 0)),
            'b' => Some(('\u{8}', 0)),
            'f' => Some(('\u{c}', 0)),
            'n' => Some(('\n', 0)),
            'r' => Some(('\r', 0)),
            't' => Some(('\t', 0)),
            'v' => Some(('\u{b}', 0)),
            '0'..='7' => {
                let size = source[at - 1..].bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let code = u32::from_str_radix(&source[at - 1..at - 1 + size], 8).ok();
                code.and_then(char::from_u32).map(|c| (c, size - 1))
            }
            'x' => Some(hex(2).ok_or("a \\x escape without two digits in a string")?),
            'u' => Some(hex(4).ok_or("a \\u escape that is no character in a string")?),
            'U' => Some(hex(8).ok_or("a \\U escape that is no character in a string")?),
            'N' if source[at..].starts_with('{') => return Err("\\N{...} in a string".into()),
            _ => None,
        };
        match found {
            Some((c, size)) => {
                text.push(c);
                at += size;
            }
            None => text.extend(['\\', c]),
        }
    }
}

/// A string in minijinja's words.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
