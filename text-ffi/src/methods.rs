//! Methods of Python's `str`, `list`, `tuple`, `dict`, `int` and `float` that templates call.

use crate::filters::text::{centered, justified, replaced};
use crate::globals::no_method;
use crate::python::arguments::{bind, integer, invalid, not_had, sane_width, unnamed};
use crate::python::str_format;
use crate::python::text::{
    byte_of, capitalize, is_cased, is_printable, is_space, is_word, split_lines, title, width,
};
use crate::python::values::{equal, is_list, is_tuple, number_of, View};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};

const OF_TEXTS: [&str; 42] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
];
const MORE_OF_TEXTS: [&str; 5] = ["zfill", "encode", "translate", "maketrans", "format_map"];
const OF_DICTS: [&str; 6] = ["items", "keys", "values", "get", "copy", "fromkeys"];
const OF_LISTS: [&str; 3] = ["count", "index", "copy"];
/// Python has them, and hone has not.
const NOT_HAD: [&str; 5] = ["encode", "translate", "maketrans", "format_map", "fromkeys"];
/// The sandbox that transformers renders in forbids them.
const FORBIDDEN: [&str; 11] = [
    "append",
    "clear",
    "pop",
    "reverse",
    "insert",
    "sort",
    "extend",
    "remove",
    "popitem",
    "setdefault",
    "update",
];

/// Is it the name of a method of some value?
pub fn is_name(name: &str) -> bool {
    OF_TEXTS.contains(&name)
        || MORE_OF_TEXTS.contains(&name)
        || OF_DICTS.contains(&name)
        || OF_LISTS.contains(&name)
}

/// Does this value have the method?
pub fn has(value: &Value, name: &str) -> bool {
    match value.kind() {
        ValueKind::String => OF_TEXTS.contains(&name) || MORE_OF_TEXTS.contains(&name),
        ValueKind::Map => is_dict(value) && OF_DICTS.contains(&name),
        ValueKind::Seq => OF_LISTS[..2].contains(&name) || (name == "copy" && !is_tuple(value)),
        _ => false,
    }
}

/// A dict, and not another object with names (a namespace, a loop).
pub fn is_dict(value: &Value) -> bool {
    value.kind() == ValueKind::Map && value.as_object().is_none_or(|o| o.type_name().contains("Map<"))
}

/// Integers are at most of 128 bits here.
pub fn too_large() -> Error {
    not_had("integers of more than 128 bits")
}

/// minijinja asks here for a method it does not know.
pub fn call(_: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let found = match value.kind() {
        ValueKind::String => text_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Map if is_dict(value) => dict_method(value, method, args)?,
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, args)?,
        ValueKind::Number | ValueKind::Bool => number_method(value, method, args)?,
        _ => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    if has(value, method) && NOT_HAD.contains(&method) {
        let of = crate::python::values::type_name(value);
        return Err(not_had(format!("the method {method} of a {of}")));
    }
    if FORBIDDEN.contains(&method) && (is_dict(value) || is_list(value)) {
        let of = crate::python::values::type_name(value);
        return Err(invalid(format!("access to attribute '{method}' of '{of}' object is unsafe")));
    }
    Err(no_method(value, method))
}

fn dict_method(dict: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let view = |name: &'static str, make: &dyn Fn(Value) -> Result<Value, Error>| {
        unnamed(method, args, 0, 0)?;
        let items = dict.try_iter()?.map(make).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>(Some(Value::from_object(View { name, items })))
    };
    match method {
        "keys" => view("dict_keys", &Ok),
        "values" => view("dict_values", &|key| dict.get_item(&key)),
        "items" => view("dict_items", &|key| {
            let value = dict.get_item(&key)?;
            Ok(Value::from(Tuple::from(vec![key, value])))
        }),
        "copy" => {
            unnamed(method, args, 0, 0)?;
            Ok(Some(dict.clone()))
        }
        "get" => {
            let args = unnamed(method, args, 1, 2)?;
            let found = dict.get_item(&args[0])?;
            let fallback = || args.get(1).cloned().unwrap_or_else(|| Value::from(()));
            Ok(Some(if found.is_undefined() { fallback() } else { found }))
        }
        _ => Ok(None),
    }
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" if !is_tuple(list) => {
            unnamed(method, args, 0, 0)?;
            Ok(Some(list.clone()))
        }
        "count" => {
            let wanted = &unnamed(method, args, 1, 1)?[0];
            Ok(Some(Value::from(list.try_iter()?.filter(|item| equal(item, wanted)).count())))
        }
        "index" => {
            let args = unnamed(method, args, 1, 3)?;
            let size = list.len().unwrap_or(0) as i64;
            let bound = |at: usize, default: i64| -> Result<i64, Error> {
                let value = args.get(at).map_or(Ok(default), integer)?;
                Ok(if value < 0 { (value + size).max(0) } else { value })
            };
            let (from, to) = (bound(1, 0)?, bound(2, i64::MAX)?);
            let found = list
                .try_iter()?
                .enumerate()
                .find(|(at, item)| (from..to).contains(&(*at as i64)) && equal(item, &args[0]));
            found.map(|(at, _)| Some(Value::from(at))).ok_or_else(|| invalid("value is not in list"))
        }
        _ => Ok(None),
    }
}

fn number_method(number: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let whole = number.kind() == ValueKind::Bool || number.is_integer();
    match method {
        "bit_length" if whole => {
            unnamed(method, args, 0, 0)?;
            let size = i128::from(integer(number)?).unsigned_abs();
            Ok(Some(Value::from(u128::BITS - size.leading_zeros())))
        }
        "is_integer" if !whole => {
            unnamed(method, args, 0, 0)?;
            let value = number_of(number);
            Ok(Some(Value::from(value.is_finite() && value.fract() == 0.0)))
        }
        _ => Ok(None),
    }
}

fn text_of<'a>(method: &str, value: &'a Value) -> Result<&'a str, Error> {
    value.as_str().ok_or_else(|| {
        let had = crate::python::values::type_name(value);
        invalid(format!("{method}() needs a string, not a '{had}'"))
    })
}

fn text_method(s: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let found = match method {
        "upper" | "lower" | "casefold" | "swapcase" | "capitalize" | "title" => {
            unnamed(method, args, 0, 0)?;
            Value::from(in_case(s, method))
        }
        "strip" | "lstrip" | "rstrip" => {
            let args = unnamed(method, args, 0, 1)?;
            let set =
                args.first().filter(|set| !set.is_none()).map(|set| text_of(method, set)).transpose()?;
            let strips = |c: char| set.map_or_else(|| is_space(c), |set| set.contains(c));
            Value::from(match method {
                "strip" => s.trim_matches(strips),
                "lstrip" => s.trim_start_matches(strips),
                _ => s.trim_end_matches(strips),
            })
        }
        "removeprefix" | "removesuffix" => {
            let part = text_of(method, &unnamed(method, args, 1, 1)?[0])?;
            let rest = if method == "removeprefix" { s.strip_prefix(part) } else { s.strip_suffix(part) };
            Value::from(rest.unwrap_or(s))
        }
        "split" => split(s, bind("split", &["sep", "maxsplit"], args)?, false)?,
        "rsplit" => split(s, bind("rsplit", &["sep", "maxsplit"], args)?, true)?,
        "splitlines" => {
            let args = bind("splitlines", &["keepends"], args)?;
            Value::from(split_lines(s, args.truth(0, false)).into_iter().map(Value::from).collect::<Vec<_>>())
        }
        "partition" | "rpartition" => {
            let separator = text_of(method, &unnamed(method, args, 1, 1)?[0])?;
            partition(s, method, separator)?
        }
        "replace" => {
            let args = bind("replace", &["old", "new", "count"], args)?;
            let (old, new) = (text_of(method, args.required(0)?)?, text_of(method, args.required(1)?)?);
            Value::from(replaced(s, old, new, args.integer(2, -1)?))
        }
        "join" => {
            let parts = &unnamed(method, args, 1, 1)?[0];
            join(s, parts)?
        }
        "format" => Value::from(str_format::format(s, args)?),
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => {
            search(s, method, args)?
        }
        "zfill" => {
            let size = sane_width(integer(&unnamed(method, args, 1, 1)?[0])?)?;
            let (sign, digits) = s.split_at(usize::from(s.starts_with(['-', '+'])));
            Value::from(format!("{sign}{}", justified(digits, size.saturating_sub(sign.len()), '0', '>')))
        }
        "center" | "ljust" | "rjust" => {
            let args = unnamed(method, args, 1, 2)?;
            let size = sane_width(integer(&args[0])?)?;
            let mut fill = args.get(1).map_or(Ok(" "), |fill| text_of(method, fill))?.chars();
            let (Some(fill), None) = (fill.next(), fill.next()) else {
                return Err(invalid("The fill character must be exactly one character long"));
            };
            Value::from(match method {
                "center" => centered(s, size, fill),
                "ljust" => justified(s, size, fill, '<'),
                _ => justified(s, size, fill, '>'),
            })
        }
        "expandtabs" => {
            let args = bind("expandtabs", &["tabsize"], args)?;
            Value::from(expand_tabs(s, sane_width(args.integer(0, 8)?)?))
        }
        _ if method.starts_with("is") && OF_TEXTS.contains(&method) => {
            unnamed(method, args, 0, 0)?;
            Value::from(is_all(s, method))
        }
        _ => return Ok(None),
    };
    Ok(Some(found))
}

fn in_case(s: &str, method: &str) -> String {
    match method {
        "upper" => s.to_uppercase(),
        "lower" => s.to_lowercase(),
        "casefold" => {
            s.chars().flat_map(char::to_lowercase).collect::<String>().replace('ß', "ss").replace('ς', "σ")
        }
        "capitalize" => capitalize(s),
        "title" => title(s),
        _ => {
            s.chars()
                .map(|c| {
                    if c.is_uppercase() {
                        c.to_lowercase().to_string()
                    } else {
                        c.to_uppercase().to_string()
                    }
                })
                .collect()
        }
    }
}

fn is_all(s: &str, method: &str) -> bool {
    let all = |holds: &dyn Fn(char) -> bool| !s.is_empty() && s.chars().all(holds);
    let cased = s.chars().any(is_cased);
    match method {
        "isascii" => s.is_ascii(),
        "isprintable" => s.chars().all(is_printable),
        "isspace" => all(&is_space),
        "isalpha" => all(&char::is_alphabetic),
        "isalnum" => all(&char::is_alphanumeric),
        "isdecimal" => all(&is_decimal),
        "isdigit" => all(&|c| is_decimal(c) || "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉①②③④⑤⑥⑦⑧⑨".contains(c)),
        "isnumeric" => all(&|c| c.is_numeric() || HAN_NUMBERS.contains(c)),
        "islower" => cased && !s.chars().any(|c| c.is_uppercase()),
        "isupper" => cased && !s.chars().any(|c| c.is_lowercase()),
        "istitle" => cased && title(s) == s,
        _ => all(&is_word) && !s.starts_with(char::is_numeric), // isidentifier
    }
}

/// The Han characters that stand for numbers; Unicode calls them letters.
const HAN_NUMBERS: &str = "零一二三四五六七八九十百千万億兆两壹贰叁肆伍陆柒捌玖拾佰仟";

/// A decimal digit of some script: those stand in tens, of which the first ends in 0 or 6.
fn is_decimal(c: char) -> bool {
    c.is_ascii_digit()
        || (c.is_numeric() && DECIMAL_ZEROS.iter().any(|zero| (*zero..*zero + 10).contains(&(c as u32))))
}

const DECIMAL_ZEROS: [u32; 23] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20,
    0x1040, 0x17e0, 0x1810, 0xa8d0, 0xff10, 0x1d7ce, 0x1d7d8, 0x1d7e2,
];

fn split(s: &str, args: crate::python::arguments::Bound, from_right: bool) -> Result<Value, Error> {
    let most = args.integer(1, -1)?;
    // A negative number of splits means all of them.
    let pieces = usize::try_from(most).map_or(usize::MAX, |n| n.saturating_add(1));
    let separator = args.some(0).map(|one| text_of("split", one)).transpose()?;
    if separator == Some("") {
        return Err(invalid("empty separator"));
    }
    let mut parts: Vec<&str> = match (separator, from_right) {
        (Some(separator), false) => s.splitn(pieces, separator).collect(),
        (Some(separator), true) => s.rsplitn(pieces, separator).collect(),
        (None, false) => split_blanks(s, pieces),
        (None, true) => rsplit_blanks(s, pieces),
    };
    if from_right {
        parts.reverse();
    }
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

// str.split() without a separator: runs of blanks separate.
fn split_blanks(s: &str, pieces: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = rest.find(is_space).filter(|_| parts.len() + 1 < pieces);
        let Some(end) = end else {
            parts.push(if parts.len() + 1 < pieces { rest.trim_end_matches(is_space) } else { rest });
            break;
        };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

// The same from the right, last piece first.
fn rsplit_blanks(s: &str, pieces: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s.trim_end_matches(is_space);
    while !rest.is_empty() {
        let blank = rest.rfind(is_space).filter(|_| parts.len() + 1 < pieces);
        let Some(at) = blank else {
            parts.push(rest);
            break;
        };
        let word = rest[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        parts.push(&rest[word..]);
        rest = rest[..at].trim_end_matches(is_space);
    }
    parts
}

fn partition(s: &str, method: &str, separator: &str) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let first = method == "partition";
    let parts = match if first { s.split_once(separator) } else { s.rsplit_once(separator) } {
        Some((before, after)) => [before, separator, after],
        None if first => [s, "", ""],
        None => ["", "", s],
    };
    Ok(Value::from(Tuple::new(parts.map(Value::from).to_vec())))
}

fn join(s: &str, parts: &Value) -> Result<Value, Error> {
    let mut out = String::new();
    let parts: Vec<Value> = match parts.as_str() {
        Some(text) => text.chars().map(|c| Value::from(c.to_string())).collect(),
        None => parts.try_iter()?.collect(),
    };
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(s);
        }
        out.push_str(text_of("join", part)?);
    }
    Ok(Value::from(out))
}

/// The methods with `(what, start, end)`.
fn search(s: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let args = unnamed(method, args, 1, 3)?;
    let size = width(s) as i64;
    let bound = |at: usize, default: i64| -> Result<i64, Error> {
        let value = args.get(at).filter(|v| !v.is_none()).map_or(Ok(default), integer)?;
        Ok(if value < 0 { (value + size).max(0) } else { value })
    };
    let (start, end) = (bound(1, 0)?, bound(2, size)?.min(size));
    let inside = (start <= end).then(|| &s[byte_of(s, start as usize)..byte_of(s, end as usize)]);
    let place = |at: Option<usize>| at.map(|at| start + width(&inside.unwrap_or_default()[..at]) as i64);
    match method {
        "startswith" | "endswith" => {
            let wanted: Vec<Value> =
                if is_tuple(&args[0]) { args[0].try_iter()?.collect() } else { vec![args[0].clone()] };
            for one in &wanted {
                let one = text_of(method, one)?;
                if inside.is_some_and(|s| {
                    if method == "startswith" {
                        s.starts_with(one)
                    } else {
                        s.ends_with(one)
                    }
                }) {
                    return Ok(Value::from(true));
                }
            }
            Ok(Value::from(false))
        }
        "count" => {
            let part = text_of(method, &args[0])?;
            let count = |s: &str| if part.is_empty() { width(s) + 1 } else { s.matches(part).count() };
            Ok(Value::from(inside.map_or(0, count)))
        }
        _ => {
            let part = text_of(method, &args[0])?;
            let right = method.starts_with('r');
            let found = place(inside.and_then(|s| if right { s.rfind(part) } else { s.find(part) }));
            match found {
                Some(at) => Ok(Value::from(at)),
                None if method.ends_with("index") => Err(invalid("substring not found")),
                None => Ok(Value::from(-1)),
            }
        }
    }
}

fn expand_tabs(s: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in s.chars() {
        match c {
            '\t' if size > 0 => {
                let missing = size - column % size;
                out.extend(std::iter::repeat_n(' ', missing));
                column += missing;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_without_separator_are_pythons() {
        assert_eq!(rsplit_blanks(" a  b\tc ", usize::MAX), ["c", "b", "a"]);
        assert_eq!(rsplit_blanks(" a  b\tc ", 2), ["c", " a  b"]);
        assert!(rsplit_blanks(" \n", 3).is_empty());
        assert_eq!(split_blanks(" a  b\tc ", 2), ["a", "b\tc "]);
        assert_eq!(split_blanks(" a  b ", usize::MAX), ["a", "b"]);
    }
}
