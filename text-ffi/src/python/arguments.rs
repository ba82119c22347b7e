//! Arguments of a call, bound to names as Python binds them.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;
use std::fmt;

pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// What jinja2 has and hone has not. It is carried through minijinja's errors to where the sentence is made.
#[derive(Debug)]
pub struct NotHad(pub String);

impl fmt::Display for NotHad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHad {}

/// `what` stands in the sentence "the template uses ..., which hone does not have".
pub fn not_had(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_string()).with_source(NotHad(what.to_string()))
}

/// The arguments of a call as one list, in which keyword arguments are the last value.
pub fn with_named(rest: &[Value], named: Kwargs) -> Cow<'_, [Value]> {
    if named.args().next().is_none() {
        return Cow::Borrowed(rest);
    }
    Cow::Owned(rest.iter().cloned().chain([Value::from(named)]).collect())
}

/// Positional arguments and keyword arguments, in the order in which they were given.
pub fn split(given: &[Value]) -> Result<(&[Value], Vec<(String, Value)>), Error> {
    let Some((last, before)) = given.split_last().filter(|(last, _)| last.is_kwargs()) else {
        return Ok((given, Vec::new()));
    };
    let kwargs = Kwargs::try_from(last.clone())?;
    let mut named = Vec::new();
    for name in kwargs.args() {
        named.push((name.to_string(), kwargs.peek::<Value>(name)?));
    }
    Ok((before, named))
}

/// The arguments of `function(names...)`; those that were not given are None.
pub struct Bound {
    function: &'static str,
    names: &'static [&'static str],
    values: Vec<Option<Value>>,
}

pub fn bind(function: &'static str, names: &'static [&'static str], given: &[Value]) -> Result<Bound, Error> {
    let (positional, named) = split(given)?;
    if positional.len() > names.len() {
        let (most, had) = (names.len(), positional.len());
        return Err(invalid(format!("{function}() takes at most {most} arguments ({had} given)")));
    }
    let mut values: Vec<Option<Value>> = positional.iter().cloned().map(Some).collect();
    values.resize(names.len(), None);
    for (name, value) in named {
        let Some(at) = names.iter().position(|n| *n == name) else {
            return Err(invalid(format!("{function}() has no argument named '{name}'")));
        };
        if values[at].replace(value).is_some() {
            return Err(invalid(format!("{function}() has two values for the argument '{name}'")));
        }
    }
    Ok(Bound { function, names, values })
}

/// For methods whose arguments have no names.
pub fn unnamed<'a>(
    function: &str,
    given: &'a [Value],
    least: usize,
    most: usize,
) -> Result<&'a [Value], Error> {
    let (positional, named) = split(given)?;
    if !named.is_empty() {
        return Err(invalid(format!("{function}() takes no keyword arguments")));
    }
    if positional.len() < least || positional.len() > most {
        let had = positional.len();
        return Err(invalid(format!("{function}() takes {least} to {most} arguments ({had} given)")));
    }
    Ok(positional)
}

impl Bound {
    pub fn get(&self, at: usize) -> Option<&Value> {
        self.values[at].as_ref()
    }

    /// The same, where None is the default.
    pub fn some(&self, at: usize) -> Option<&Value> {
        self.get(at).filter(|v| !v.is_none())
    }

    pub fn required(&self, at: usize) -> Result<&Value, Error> {
        let (function, name) = (self.function, self.names[at]);
        self.get(at).ok_or_else(|| invalid(format!("{function}() needs the argument '{name}'")))
    }

    pub fn truth(&self, at: usize, default: bool) -> bool {
        self.get(at).map_or(default, Value::is_true)
    }

    pub fn integer(&self, at: usize, default: i64) -> Result<i64, Error> {
        self.get(at).map_or(Ok(default), integer)
    }

    pub fn text(&self, at: usize, default: &'static str) -> Result<&str, Error> {
        let Some(value) = self.get(at) else { return Ok(default) };
        value.as_str().ok_or_else(|| {
            let (function, name) = (self.function, self.names[at]);
            invalid(format!("{function}(): '{name}' is a {}, not a string", value.kind()))
        })
    }
}

/// An int, or a bool, which is one in Python.
pub fn integer(value: &Value) -> Result<i64, Error> {
    if value.kind() == ValueKind::Bool {
        return Ok(i64::from(value.is_true()));
    }
    if !value.is_integer() {
        return Err(invalid(format!("a {} where an integer is needed", value.kind())));
    }
    i64::try_from(value.clone())
}

/// A number of characters that a template asks for, when it is not absurd; below zero is none.
pub fn sane_width(width: i64) -> Result<usize, Error> {
    const WIDEST: i64 = 1_000_000;
    if width <= WIDEST {
        return Ok(usize::try_from(width).unwrap_or(0));
    }
    Err(invalid(format!("a width of {width}; at most {WIDEST} is allowed")))
}
