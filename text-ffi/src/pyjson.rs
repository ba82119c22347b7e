//! Python's text forms for minijinja values: `json.dumps`, `repr(float)` and `str`.

use crate::python::arguments::{bind, integer, invalid, sane_width};
use crate::python::text;
use crate::python::values::{is_tuple, Range, View};
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Error, State, Value};
use std::fmt::Write;

const DEEPEST: usize = 200; // beyond it Python would have met its recursion limit too
const MOST_PARTS: usize = 1_000_000; // of a value that is printed; shared parts count each time

/// CPython's `repr(float)`: an exponent below 1e-4 and from 1e16 on, two digits at least. `json`: its names of
/// the values without digits (`NaN`, `Infinity`).
pub fn float_text(value: f64, json: bool) -> String {
    if value.is_nan() {
        return if json { "NaN" } else { "nan" }.into();
    }
    if value.is_infinite() {
        let name = if json { "Infinity" } else { "inf" };
        return format!("{}{name}", if value < 0.0 { "-" } else { "" });
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0" } else { "0.0" }.into();
    }
    let shortest = format!("{value:e}"); // the shortest digits that read back as the same value
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn number_text(value: &Value, json: bool) -> String {
    if value.is_integer() {
        value.to_string()
    } else {
        float_text(f64::try_from(value.clone()).unwrap_or(f64::NAN), json)
    }
}

/// How `json.dumps` was called.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ensure_ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_string()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::None => Ok("null".into()),
        ValueKind::Number => Ok(number_text(key, true)),
        _ => Err(invalid("keys must be str, int, float, bool or None")),
    }
}

fn new_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent.as_str(), depth));
    }
}

fn dump(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(invalid("Circular reference detected"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number_text(value, true)),
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        // Iterable: `list + list`, and what map() and select() return, are lazy in minijinja.
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut any = false;
            for item in value.try_iter()? {
                if any {
                    out.push_str(&style.item_separator);
                }
                any = true;
                new_line(out, style, depth + 1);
                dump(out, &item, style, depth + 1)?;
            }
            if any {
                new_line(out, style, depth);
            }
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            out.push('{');
            for (i, key) in keys.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item_separator);
                }
                new_line(out, style, depth + 1);
                write_string(out, &key_text(key)?, style.ensure_ascii);
                out.push_str(&style.key_separator);
                dump(out, &value.get_item(key)?, style, depth + 1)?;
            }
            if !keys.is_empty() {
                new_line(out, style, depth);
            }
            out.push('}');
        }
        ValueKind::Undefined => return Err(invalid("Object of type Undefined is not JSON serializable")),
        kind => return Err(invalid(format!("Object of type {kind} is not JSON serializable"))),
    }
    Ok(())
}

/// transformers' filter `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn tojson(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("tojson", &["ensure_ascii", "indent", "separators", "sort_keys"], given)?;
    let indent = given.some(1).filter(|v| !v.is_undefined()).map(indent_text).transpose()?;
    let (item_separator, key_separator) = match given.some(2).filter(|v| !v.is_undefined()) {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let style = Style {
        ensure_ascii: given.truth(0, false),
        indent,
        item_separator,
        key_separator,
        sort_keys: given.truth(3, false),
    };
    let mut out = String::new();
    dump(&mut out, value, &style, 0)?;
    Ok(Value::from(out))
}

// Python takes an int, a bool (which is an int) or the indent itself.
fn indent_text(indent: &Value) -> Result<String, Error> {
    match indent.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Ok(" ".repeat(sane_width(integer(indent)?)?)),
    }
}

/// An error for what cannot be printed: a namespace that holds itself, lists of lists of lists without end.
pub fn check_printable(value: &Value) -> Result<(), Error> {
    fn walk(value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
        let map = match value.kind() {
            ValueKind::Map => true,
            ValueKind::Seq => false,
            // Of those without a length only a name is printed.
            ValueKind::Iterable if value.len().is_some() => false,
            _ => return Ok(()),
        };
        if depth > DEEPEST {
            return Err(invalid(format!("the value holds itself, or has more than {DEEPEST} levels")));
        }
        for part in value.try_iter()? {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| invalid(format!("the value has more than {MOST_PARTS} parts")))?;
            walk(&part, depth + 1, left)?;
            if map {
                walk(&value.get_item(&part)?, depth + 1, left)?;
            }
        }
        Ok(())
    }
    let mut left = MOST_PARTS;
    walk(value, 0, &mut left)
}

/// Python's `str(x)`.
pub fn str_text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_string()),
        ValueKind::Undefined => Ok(String::new()),
        _ => repr_text(value),
    }
}

/// Python's `repr(x)`.
pub fn repr_text(value: &Value) -> Result<String, Error> {
    check_printable(value)?;
    let mut out = String::new();
    write_repr(&mut out, value)?;
    Ok(out)
}

fn write_repr(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number_text(value, false)),
        ValueKind::String if value.is_safe() => {
            let _ = write!(out, "Markup({})", text::repr(value.as_str().unwrap_or_default()));
        }
        ValueKind::String => out.push_str(&text::repr(value.as_str().unwrap_or_default())),
        ValueKind::Seq | ValueKind::Iterable if prints_items(value) => write_items(out, value)?,
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?)?;
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn prints_items(value: &Value) -> bool {
    value.len().is_some() && value.downcast_object_ref::<Range>().is_none()
}

fn write_items(out: &mut String, value: &Value) -> Result<(), Error> {
    let view = value.downcast_object_ref::<View>();
    let tuple = is_tuple(value);
    if let Some(view) = view {
        let _ = write!(out, "{}(", view.name);
    }
    out.push(if tuple { '(' } else { '[' });
    for (i, item) in value.try_iter()?.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(out, &item)?;
    }
    if tuple && value.len() == Some(1) {
        out.push(',');
    }
    out.push(if tuple { ')' } else { ']' });
    if view.is_some() {
        out.push(')');
    }
    Ok(())
}

/// The text of `{{ value }}`.
pub fn print(out: &mut minijinja::Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if *state.auto_escape() != AutoEscape::None {
        return minijinja::escape_formatter(out, state, value);
    }
    match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&str_text(value)?).map_err(Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_cpython() {
        let cases = [
            (1e-7, "1e-07"),
            (1e20, "1e+20"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (0.0001, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (2.0, "2.0"),
            (-0.0, "-0.0"),
            (1e100, "1e+100"),
        ];
        for (value, text) in cases {
            assert_eq!(float_text(value, true), text);
        }
        assert_eq!(float_text(f64::NEG_INFINITY, true), "-Infinity");
        assert_eq!(float_text(f64::NAN, false), "nan");
    }
}
