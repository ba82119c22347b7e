//! Filters of numbers.

use super::Filter;
use crate::python::arguments::{bind, integer, invalid};
use crate::python::text::is_space;
use crate::python::values::{is_numeric, number_of, type_name};
use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

pub const FILTERS: &[(&str, Filter)] =
    &[("abs", abs), ("filesizeformat", filesizeformat), ("float", float), ("int", int), ("round", round)];

fn abs(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("abs", &[], given)?;
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => Ok(small(i128::try_from(value.clone())?.saturating_abs())),
        ValueKind::Number => Ok(Value::from(number_of(value).abs())),
        _ => Err(invalid(format!("bad operand type for abs(): '{}'", type_name(value)))),
    }
}

fn small(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

/// `float(text)` of Python.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let underscores = text.split('_').all(|part| !part.is_empty());
    let plain = text.trim_start_matches(['+', '-']).to_lowercase();
    if !underscores || plain.len() + 1 < text.len() {
        return None;
    }
    text.replace('_', "").parse().ok()
}

// float(value, default=0.0)
fn float(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("float", &["default"], given)?;
    let fallback = || given.get(0).cloned().unwrap_or_else(|| Value::from(0.0));
    Ok(match value.kind() {
        ValueKind::String => {
            parse_float(value.as_str().unwrap_or_default()).map_or_else(fallback, Value::from)
        }
        _ if is_numeric(value) => Value::from(number_of(value)),
        _ => fallback(),
    })
}

// int(value, default=0, base=10): the default where Python's int() and int(float()) both fail.
fn int(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("int", &["default", "base"], given)?;
    let fallback = || given.get(0).cloned().unwrap_or_else(|| Value::from(0));
    let base = given.integer(1, 10)?;
    let whole = |f: f64| if f.is_finite() { Some(f as i128) } else { None };
    let found = match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            parse_int(text, base).or_else(|| parse_float(text).and_then(whole))
        }
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => return Ok(value.clone()),
        ValueKind::Number => whole(number_of(value)),
        _ => None,
    };
    Ok(found.map_or_else(fallback, small))
}

/// `int(text, base)` of Python.
fn parse_int(text: &str, base: i64) -> Option<i128> {
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed =
        |prefix: &str| digits.get(..2).filter(|head| head.eq_ignore_ascii_case(prefix)).map(|_| &digits[2..]);
    let (radix, digits) = match base {
        0 => match (prefixed("0x"), prefixed("0o"), prefixed("0b")) {
            (Some(rest), ..) => (16, rest),
            (_, Some(rest), _) => (8, rest),
            (.., Some(rest)) => (2, rest),
            _ => (10, digits),
        },
        16 => (16, prefixed("0x").unwrap_or(digits)),
        8 => (8, prefixed("0o").unwrap_or(digits)),
        2 => (2, prefixed("0b").unwrap_or(digits)),
        base => (u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?, digits),
    };
    if digits.starts_with(['+', '-']) || digits.split('_').any(str::is_empty) {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if negative { -number } else { number })
}

// round(value, precision=0, method='common')
fn round(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("round", &["precision", "method"], given)?;
    let precision = given.integer(0, 0)?.clamp(-300, 300);
    let method = given.text(1, "common")?;
    if !is_numeric(value) {
        return Err(invalid(format!("type {} doesn't define __round__ method", type_name(value))));
    }
    let number = number_of(value);
    match method {
        "common" if value.kind() == ValueKind::Bool || value.is_integer() => {
            let whole = integer(value)?;
            if precision >= 0 {
                return Ok(Value::from(whole));
            }
            let unit = 10i128.saturating_pow(u32::try_from(-precision).unwrap_or(0));
            let (low, left) = (i128::from(whole).div_euclid(unit), i128::from(whole).rem_euclid(unit));
            let up = left * 2 > unit || (left * 2 == unit && low % 2 != 0);
            Ok(small((low + i128::from(up)) * unit))
        }
        "common" if !number.is_finite() => Ok(value.clone()),
        "common" => Ok(Value::from(rounded(number, precision))),
        "floor" | "ceil" => {
            let unit = 10f64.powi(precision as i32);
            let scaled = number * unit;
            Ok(Value::from(if method == "floor" { scaled.floor() } else { scaled.ceil() } / unit))
        }
        _ => Err(invalid("method must be common, ceil or floor")),
    }
}

/// `round(float, precision)`: the decimal digits, correctly rounded, half to even.
fn rounded(number: f64, precision: i64) -> f64 {
    if let Ok(digits) = usize::try_from(precision) {
        return format!("{number:.digits$}").parse().unwrap_or(number);
    }
    let unit = 10f64.powi(-precision as i32);
    let scaled: f64 = format!("{:.0}", number / unit).parse().unwrap_or(0.0);
    scaled * unit
}

fn filesizeformat(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("filesizeformat", &["binary"], given)?;
    let binary = given.truth(0, false);
    let bytes = match value.as_str() {
        Some(text) => parse_float(text).ok_or_else(|| invalid("filesizeformat() needs a number"))?,
        None if is_numeric(value) => number_of(value),
        None => return Err(invalid("filesizeformat() needs a number")),
    };
    let base = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", bytes as i64)));
    }
    let mut unit = base;
    for (i, prefix) in "kMGTPEZY".chars().enumerate() {
        unit *= base;
        if bytes < unit || i == 7 {
            let size = base * bytes / unit;
            let prefix =
                if binary { format!("{}i", prefix.to_ascii_uppercase()) } else { prefix.to_string() };
            return Ok(Value::from(format!("{size:.1} {prefix}B")));
        }
    }
    Ok(Value::UNDEFINED)
}
