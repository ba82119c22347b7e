//! Methods of Python's `str`, `list` and `dict` that templates call. minijinja-contrib's pycompat has most of
//! them; here are those it lacks, and the strip family, for which Python knows four more blanks.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Python's `str.isspace`: Unicode's white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// minijinja asks here for a method it does not know.
pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let known = match value.kind() {
        ValueKind::String => str_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq if method == "index" => Some(list_index(value, args)?),
        ValueKind::Seq | ValueKind::Map if method == "copy" && args.is_empty() => Some(value.clone()),
        _ => None,
    };
    match known {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// A width that a template asks for, when it is not absurd.
pub fn sane_width(width: usize) -> Result<usize, Error> {
    const WIDEST: usize = 1_000_000;
    if width <= WIDEST {
        return Ok(width);
    }
    Err(Error::new(ErrorKind::InvalidOperation, format!("a width of {width}; at most {WIDEST} is allowed")))
}

fn list_index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (&Value,) = from_args(args)?;
    let position = list.try_iter()?.position(|item| &item == wanted);
    position.map(Value::from).ok_or_else(|| invalid("value is not in list"))
}

fn str_method(s: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            let strips = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
            Value::from(match method {
                "strip" => s.trim_matches(strips),
                "lstrip" => s.trim_start_matches(strips),
                _ => s.trim_end_matches(strips),
            })
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(prefix).unwrap_or(s))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(suffix).unwrap_or(s))
        }
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            // A negative number of splits means all of them.
            let pieces =
                most.and_then(|n| usize::try_from(n).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<Value> = match separator {
                Some(separator) => s.rsplitn(pieces, separator).map(Value::from).collect(),
                None => rsplit_blanks(s, pieces).into_iter().map(Value::from).collect(),
            };
            parts.reverse();
            Value::from(parts)
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let first = method == "partition";
            let parts = match if first { s.split_once(separator) } else { s.rsplit_once(separator) } {
                Some((before, after)) => [before, separator, after],
                None if first => [s, "", ""],
                None => ["", "", s],
            };
            Value::from(Tuple::new(parts.map(Value::from).to_vec()))
        }
        "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let found = if method == "index" { s.find(part) } else { s.rfind(part) };
            let byte = found.ok_or_else(|| invalid("substring not found"))?;
            Value::from(s[..byte].chars().count())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let zeros = "0".repeat(sane_width(width)?.saturating_sub(s.chars().count()));
            let (sign, digits) = s.split_at(usize::from(s.starts_with(['-', '+'])));
            Value::from(format!("{sign}{zeros}{digits}"))
        }
        "ljust" | "rjust" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let fill = fill.unwrap_or(" ").repeat(sane_width(width)?.saturating_sub(s.chars().count()));
            Value::from(if method == "ljust" { format!("{s}{fill}") } else { format!("{fill}{s}") })
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

// str.rsplit() without a separator: runs of blanks separate, last piece first.
fn rsplit_blanks(s: &str, pieces: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s.trim_end_matches(is_space);
    while !rest.is_empty() {
        let blank = rest.rfind(is_space).filter(|_| parts.len() + 1 < pieces);
        let Some(at) = blank else {
            parts.push(rest.trim_start_matches(is_space));
            break;
        };
        let word = rest[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        parts.push(&rest[word..]);
        rest = rest[..at].trim_end_matches(is_space);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsplit_without_separator_is_pythons() {
        assert_eq!(rsplit_blanks(" a  b\tc ", usize::MAX), ["c", "b", "a"]);
        assert_eq!(rsplit_blanks(" a  b\tc ", 2), ["c", "a  b"]);
        assert_eq!(rsplit_blanks(" a b ", 1), ["a b"]);
        assert!(rsplit_blanks(" \n", 3).is_empty());
    }
}
