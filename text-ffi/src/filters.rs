//! Filters, tests and functions where minijinja and jinja2 differ: jinja2 is lenient with undefined values,
//! takes keyword arguments, and asks Python what a number or a sequence is.

use crate::methods::is_space;
use crate::pyjson::{check_printable, float_text, holds_float, str_text, tojson};
use minijinja::filters;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use std::fmt;

/// The message of `raise_exception`, carried unchanged through minijinja's errors.
#[derive(Debug)]
pub struct Raised(pub String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

pub fn add_all(env: &mut Environment<'_>) {
    env.add_filter("tojson", tojson);
    env.add_filter("string", |v: &Value| str_text(v));
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("list", list);
    env.add_filter(
        "first",
        |v: &Value| if v.is_undefined() { Ok(Value::UNDEFINED) } else { filters::first(v) },
    );
    env.add_filter("last", |v: Value| if v.is_undefined() { Ok(Value::UNDEFINED) } else { filters::last(v) });
    env.add_filter("trim", trim);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", is_iterable); // jinja2 asks len() and [] here, which the same values have
    env.add_test("callable", is_callable);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", |format: String| strftime_now(&format));
}

// default(value, default_value='', boolean=False)
fn default(
    value: &Value,
    fallback: Option<Value>,
    boolean: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let fallback = keyword(fallback, &kwargs, "default_value")?.unwrap_or_else(|| Value::from(""));
    let boolean = keyword(boolean, &kwargs, "boolean")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let missing = value.is_undefined() || (boolean && !value.is_true());
    Ok(if missing { fallback } else { value.clone() })
}

fn keyword(positional: Option<Value>, kwargs: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    match positional {
        Some(value) => Ok(Some(value)),
        None => kwargs.get(name),
    }
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        Ok(0)
    } else {
        filters::length(value)
    }
}

fn list(state: &mut State, value: Value) -> Result<Value, Error> {
    if value.is_undefined() {
        Ok(Value::from(Vec::<Value>::new()))
    } else {
        filters::list(state, value)
    }
}

fn trim(value: &Value, chars: Option<&str>) -> Result<String, Error> {
    let text = str_text(value)?;
    Ok(match chars {
        Some(set) => text.trim_matches(|c| set.contains(c)).to_string(),
        None => text.trim_matches(is_space).to_string(),
    })
}

// int(value, default=0, base=10): the default where Python's int() and int(float()) both fail.
fn int(value: &Value, fallback: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let fallback = keyword(fallback, &kwargs, "default")?.unwrap_or_else(|| Value::from(0));
    let base = kwargs.get::<Option<u32>>("base")?.unwrap_or(10);
    kwargs.assert_all_used()?;
    Ok(match value.kind() {
        ValueKind::String => {
            parse_int(value.as_str().unwrap_or_default(), base).map_or(fallback, Value::from)
        }
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => Value::from(f64::try_from(value.clone())? as i128),
        _ => fallback,
    })
}

fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim_matches(is_space).replace('_', "");
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    if !(2..=36).contains(&base) {
        return None;
    }
    match i128::from_str_radix(digits, base) {
        Ok(number) => Some(if negative { -number } else { number }),
        Err(_) => text.parse::<f64>().ok().filter(|f| f.is_finite()).map(|f| f as i128),
    }
}

// float(value, default=0.0)
fn float(value: &Value, fallback: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let fallback = keyword(fallback, &kwargs, "default")?.unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    Ok(match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim_matches(is_space);
            text.parse::<f64>().map_or(fallback, Value::from)
        }
        ValueKind::Bool => Value::from(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => Value::from(f64::try_from(value.clone())?),
        _ => fallback,
    })
}

fn is_iterable(value: &Value) -> bool {
    let kinds = [ValueKind::Seq, ValueKind::Map, ValueKind::Iterable, ValueKind::String];
    value.is_undefined() || kinds.contains(&value.kind())
}

fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain || format!("{value:?}").starts_with("<macro")
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

// datetime.now().strftime(format): CPython calls libc's strftime too.
fn strftime_now(format: &str) -> Result<String, Error> {
    let format =
        std::ffi::CString::new(format).map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))?;
    let mut text = vec![0u8; 1024];
    // SAFETY: localtime_r and strftime write only into what they are given, within its size.
    let written = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut local);
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &local)
    };
    text.truncate(written);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The text of `{{ value }}`.
pub fn print(out: &mut minijinja::Output, state: &mut State, value: &Value) -> Result<(), Error> {
    check_printable(value)?;
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            let text = float_text(f64::try_from(value.clone())?, false);
            out.write_str(&text).map_err(Error::from)
        }
        ValueKind::Seq | ValueKind::Map if holds_float(value) => {
            out.write_str(&str_text(value)?).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}
