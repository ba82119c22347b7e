//! Filters for HTML and addresses. Nothing is escaped unless a template asks for it.

use super::{items_of, soft_text, Filter};
use crate::python::arguments::{bind, invalid, not_had};
use crate::python::text::{byte_of, is_space, width};
use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};
use onig::{Regex, RegexOptions, Syntax};
use std::sync::OnceLock;

pub const FILTERS: &[(&str, Filter)] = &[
    ("e", escape),
    ("escape", escape),
    ("forceescape", |_, v, _| Ok(Value::from_safe_string(escaped(&soft_text(v)?)))),
    ("safe", |_, v, _| Ok(Value::from_safe_string(soft_text(v)?))),
    ("striptags", striptags),
    ("urlencode", urlencode),
    ("urlize", urlize),
    ("xmlattr", xmlattr),
];

/// markupsafe's `escape`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

fn escape(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("escape", &[], given)?;
    if value.is_safe() {
        return Ok(value.clone());
    }
    Ok(Value::from_safe_string(escaped(&soft_text(value)?)))
}

fn without(text: &str, open: &str, close: &str) -> String {
    let mut text = text.to_string();
    while let Some(begin) = text.find(open) {
        let Some(end) = text[begin..].find(close) else { break };
        text.replace_range(begin..begin + end + close.len(), "");
    }
    text
}

fn striptags(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("striptags", &[], given)?;
    let text = without(&soft_text(value)?, "<!--", "-->");
    let text = without(&text, "<", ">");
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    unescaped(&words.join(" ")).map(Value::from)
}

/// Names of the characters from U+00A0 to U+00FF; HTML takes them without a semicolon too.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 \
    sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml \
    Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml \
    times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave \
    eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute \
    ucirc uuml yacute thorn yuml";
const NAMED: [(&str, &str); 5] = [("amp", "&"), ("lt", "<"), ("gt", ">"), ("quot", "\""), ("apos", "'")];
const WITH_SEMICOLON: [(&str, &str); 12] = [
    ("hellip", "…"),
    ("mdash", "—"),
    ("ndash", "–"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bull", "•"),
    ("trade", "™"),
    ("euro", "€"),
    ("larr", "←"),
    ("rarr", "→"),
];

fn entity(name: &str) -> Option<String> {
    if let Some((_, text)) = NAMED.iter().find(|(had, _)| *had == name) {
        return Some((*text).into());
    }
    let at = LATIN.split_ascii_whitespace().position(|had| had == name)?;
    char::from_u32(0xa0 + at as u32).map(String::from)
}

/// `html.unescape`, with the entities above.
fn unescaped(text: &str) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let number = rest.strip_prefix('#');
        let (found, size) = match number {
            Some(number) => number_entity(number),
            None => named_entity(rest)?,
        };
        match found {
            Some(found) => out.push_str(&found),
            None => out.push('&'),
        }
        rest = &rest[size..];
    }
    out.push_str(rest);
    Ok(out)
}

fn number_entity(number: &str) -> (Option<String>, usize) {
    let (radix, digits) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (16, digits),
        None => (10, number),
    };
    let size = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if size == 0 {
        return (None, 0);
    }
    let code = u32::from_str_radix(&digits[..size], radix).unwrap_or(u32::MAX);
    let found = char::from_u32(code).filter(|c| *c != '\0').unwrap_or('\u{fffd}');
    let before = 1 + number.len() - digits.len();
    (Some(found.into()), before + size + usize::from(digits[size..].starts_with(';')))
}

fn named_entity(rest: &str) -> Result<(Option<String>, usize), Error> {
    let size = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let name = &rest[..size];
    let closed = rest[size..].starts_with(';');
    if closed {
        let more = WITH_SEMICOLON.iter().find(|(had, _)| *had == name).map(|(_, text)| text.to_string());
        if let Some(found) = entity(name).or(more) {
            return Ok((Some(found), size + 1));
        }
    }
    for end in (2..=size).rev() {
        if let Some(found) = entity(&name[..end]).filter(|_| &name[..end] != "apos") {
            return Ok((Some(found), end));
        }
    }
    if closed && size > 1 {
        return Err(not_had(format!("striptags on the entity &{name};")));
    }
    Ok((None, 0))
}

/// `urllib.parse.quote`, as jinja2 calls it.
fn quoted(value: &Value, query: bool) -> Result<String, Error> {
    let mut out = String::new();
    for byte in soft_text(value)?.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte.into()),
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(out)
}

fn urlencode(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("urlencode", &[], given)?;
    let pairs: Vec<(Value, Value)> = match value.kind() {
        ValueKind::Map => value
            .try_iter()?
            .map(|key| Ok((key.clone(), value.get_item(&key)?)))
            .collect::<Result<_, Error>>()?,
        ValueKind::Seq | ValueKind::Iterable => {
            let pair = |item: Value| Ok((item.get_item_by_index(0)?, item.get_item_by_index(1)?));
            items_of(value)?.into_iter().map(pair).collect::<Result<_, Error>>()?
        }
        _ => return quoted(value, false).map(Value::from),
    };
    let parts = pairs.iter().map(|(k, v)| Ok(format!("{}={}", quoted(k, true)?, quoted(v, true)?)));
    Ok(Value::from(parts.collect::<Result<Vec<_>, Error>>()?.join("&")))
}

fn xmlattr(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("xmlattr", &["autospace"], given)?;
    if value.kind() != ValueKind::Map {
        return Err(invalid("xmlattr() needs a mapping"));
    }
    let mut parts = Vec::new();
    for key in value.try_iter()? {
        let content = value.get_item(&key)?;
        if content.is_none() || content.is_undefined() {
            continue;
        }
        let name = soft_text(&key)?;
        if name.contains(|c| is_space(c) || "/>=".contains(c)) {
            return Err(invalid(format!("Invalid character in attribute name: '{name}'")));
        }
        let text = soft_text(&content)?;
        let text = if content.is_safe() { text } else { escaped(&text) };
        parts.push(format!("{}=\"{text}\"", escaped(&name)));
    }
    let space = if given.truth(0, true) && !parts.is_empty() { " " } else { "" };
    Ok(Value::from(format!("{space}{}", parts.join(" "))))
}

fn regex(pattern: &str) -> Option<Regex> {
    Regex::with_options(pattern, RegexOptions::REGEX_OPTION_IGNORECASE, Syntax::default()).ok()
}

fn matches(place: &OnceLock<Option<Regex>>, pattern: &str, text: &str) -> bool {
    place.get_or_init(|| regex(pattern)).as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_address(text: &str) -> bool {
    static PLACE: OnceLock<Option<Regex>> = OnceLock::new();
    const ADDRESS: &str = r"\A((https?://|www\.)(([\w%-]+\.)+)?([a-z]{2,63}|xn--[\w%]{2,59})|([\w%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)|(https?://)((([\d]{1,3})(\.[\d]{1,3}){3})|(\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}\])))(?::[\d]{1,5})?(?:[/?#]\S*)?\z";
    matches(&PLACE, ADDRESS, text)
}

fn is_mail(text: &str) -> bool {
    static PLACE: OnceLock<Option<Regex>> = OnceLock::new();
    matches(&PLACE, r"\A\S+@\w[\w.-]*\.\w+\z", text)
}

/// The parts of a word: brackets before, the word, what ends a sentence behind.
fn around(word: &str) -> (String, String, String) {
    let mut middle = word;
    while let Some(rest) = ["(", "<", "&lt;"].iter().find_map(|open| middle.strip_prefix(open)) {
        middle = rest;
    }
    let head = word[..word.len() - middle.len()].to_string();
    let mut kept = middle;
    while let Some(rest) =
        [")", ">", ".", ",", "\n", "&gt;"].iter().find_map(|close| kept.strip_suffix(close))
    {
        kept = rest;
    }
    let mut tail = middle[kept.len()..].to_string();
    let mut middle = kept.to_string();
    for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
        let opened = middle.matches(open).count();
        if opened <= middle.matches(close).count() {
            continue;
        }
        for _ in 0..opened.min(tail.matches(close).count()) {
            let Some(end) = tail.find(close).map(|at| at + close.len()) else { break };
            middle.push_str(&tail[..end]);
            tail.replace_range(..end, "");
        }
    }
    (head, middle, tail)
}

// urlize(value, trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None)
fn urlize(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let names = &["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"];
    let given = bind("urlize", names, given)?;
    let limit = if given.some(0).is_some() { usize::try_from(given.integer(0, 0)?).ok() } else { None };
    let mut rels: Vec<String> = match given.some(3) {
        Some(_) => {
            given.text(3, "")?.split(is_space).filter(|one| !one.is_empty()).map(String::from).collect()
        }
        None => Vec::new(),
    };
    rels.extend(given.truth(1, false).then(|| "nofollow".to_string()));
    rels.push("noopener".into());
    rels.sort();
    rels.dedup();
    let mut attributes = format!(" rel=\"{}\"", escaped(&rels.join(" ")));
    if let Some(target) = given.some(2) {
        attributes += &format!(" target=\"{}\"", escaped(&soft_text(target)?));
    }
    let schemes: Vec<String> = match given.some(4) {
        Some(list) => items_of(list)?.iter().map(soft_text).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let trimmed = |text: &str| match limit {
        Some(limit) if width(text) > limit => format!("{}...", &text[..byte_of(text, limit)]),
        _ => text.to_string(),
    };
    let text = soft_text(value)?;
    let text = if value.is_safe() { text } else { escaped(&text) };
    let mut out = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let blank = rest.starts_with(is_space);
        let end = rest.find(|c| is_space(c) != blank).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        rest = more;
        if blank {
            out.push_str(word);
            continue;
        }
        let (head, middle, tail) = around(word);
        let link = link(&middle, &attributes, &schemes, trimmed);
        out.push_str(&format!("{head}{link}{tail}"));
    }
    Ok(Value::from(out))
}

fn link(middle: &str, attributes: &str, schemes: &[String], trimmed: impl Fn(&str) -> String) -> String {
    if is_address(middle) {
        let scheme =
            if middle.starts_with("https://") || middle.starts_with("http://") { "" } else { "https://" };
        return format!("<a href=\"{scheme}{middle}\"{attributes}>{}</a>", trimmed(middle));
    }
    if let Some(address) = middle.strip_prefix("mailto:").filter(|address| is_mail(address)) {
        return format!("<a href=\"{middle}\">{address}</a>");
    }
    let bare = middle.contains('@')
        && !middle.starts_with("www.")
        && !middle.starts_with('@')
        && !middle.contains(':');
    if bare && is_mail(middle) {
        return format!("<a href=\"mailto:{middle}\">{middle}</a>");
    }
    let mut out = middle.to_string();
    for scheme in schemes {
        if &out != scheme && out.starts_with(scheme.as_str()) {
            out = format!("<a href=\"{out}\"{attributes}>{out}</a>");
        }
    }
    out
}
