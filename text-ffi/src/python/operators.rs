//! Operators that differ from minijinja's; `expression` writes them as calls of these functions.

use crate::filters::html::escaped;
use crate::methods;
use crate::pyjson::str_text;
use crate::python::arguments::{integer, invalid};
use crate::python::percent;
use crate::python::values::{is_list, is_numeric, is_tuple, number_of, type_name, Range};
use minijinja::value::{Object, ObjectRepr, Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, State, Value};
use std::sync::Arc;

pub const REM: &str = "__rem";
pub const MUL: &str = "__mul";
pub const ADD: &str = "__add";
pub const CONCAT: &str = "__concat";
pub const PLUS: &str = "__plus";
pub const SLICE: &str = "__slice";
pub const ATTRIBUTE: &str = "__attribute";

pub fn add_all(env: &mut Environment<'_>) {
    env.add_function(REM, rem);
    env.add_function(MUL, mul);
    env.add_function(ADD, add);
    env.add_function(CONCAT, concat);
    env.add_function(PLUS, plus);
    env.add_function(SLICE, slice);
    env.add_function(ATTRIBUTE, attribute);
}

fn unsupported(operator: &str, a: &Value, b: &Value) -> Error {
    let (a, b) = (type_name(a), type_name(b));
    invalid(format!("unsupported operand type(s) for {operator}: '{a}' and '{b}'"))
}

fn rem(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(text) = a.as_str() {
        return percent::format(text, b).map(Value::from);
    }
    if !is_numeric(a) || !is_numeric(b) {
        return Err(unsupported("%", a, b));
    }
    if let (Ok(x), Ok(y)) = (integer(a), integer(b)) {
        if y == 0 {
            return Err(invalid("integer modulo by zero"));
        }
        // Rust's remainder has the sign of the left side, Python's that of the right.
        let left = i128::from(x) % i128::from(y);
        let wrong = left != 0 && (left < 0) != (y < 0);
        return Ok(Value::from((left + if wrong { i128::from(y) } else { 0 }) as i64));
    }
    let (x, y) = (number_of(a), number_of(b));
    if y == 0.0 {
        return Err(invalid("float modulo by zero"));
    }
    let left = x % y;
    let wrong = left != 0.0 && (left < 0.0) != (y < 0.0);
    Ok(Value::from(if wrong {
        left + y
    } else if left == 0.0 {
        0f64.copysign(y)
    } else {
        left
    }))
}

fn mul(a: &Value, b: &Value) -> Result<Value, Error> {
    let copies = |of: &Value, times: &Value| -> Result<Value, Error> {
        const MOST: i64 = 100_000_000;
        let times = integer(times)?;
        let size = of.as_str().map_or(of.len().unwrap_or(0), str::len) as i64;
        if times.saturating_mul(size.max(1)) > MOST {
            return Err(invalid("repeated string is too large"));
        }
        let times = usize::try_from(times).unwrap_or(0);
        if let Some(text) = of.as_str() {
            return Ok(Value::from(text.repeat(times)));
        }
        let items: Vec<Value> = of.try_iter()?.collect();
        let all: Vec<Value> = std::iter::repeat_n(items, times).flatten().collect();
        Ok(if is_tuple(of) { Value::from(Tuple::from(all)) } else { Value::from(all) })
    };
    let many = |v: &Value| v.kind() == ValueKind::String || is_list(v);
    if many(a) && is_numeric(b) {
        return copies(a, b);
    }
    if many(b) && is_numeric(a) {
        return copies(b, a);
    }
    if !is_numeric(a) || !is_numeric(b) {
        return Err(unsupported("*", a, b));
    }
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        return x.checked_mul(y).map(small).ok_or_else(methods::too_large);
    }
    Ok(Value::from(number_of(a) * number_of(b)))
}

/// Python's `a + b`; a text that is safe for HTML escapes the other.
pub fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        if !a.is_safe() && !b.is_safe() {
            return Ok(Value::from([left, right].concat()));
        }
        let safe = |v: &Value, text: &str| if v.is_safe() { text.to_string() } else { escaped(text) };
        return Ok(Value::from_safe_string(safe(a, left) + &safe(b, right)));
    }
    if is_list(a) && is_list(b) && is_tuple(a) == is_tuple(b) {
        let all = a.try_iter()?.chain(b.try_iter()?).collect::<Vec<Value>>();
        return Ok(if is_tuple(a) { Value::from(Tuple::from(all)) } else { Value::from(all) });
    }
    if !is_numeric(a) || !is_numeric(b) {
        return Err(unsupported("+", a, b));
    }
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        return x.checked_add(y).map(small).ok_or_else(methods::too_large);
    }
    Ok(Value::from(number_of(a) + number_of(b)))
}

/// As an integer, which a bool is too.
fn whole(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        _ if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn small(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn concat(parts: Rest<Value>) -> Result<Value, Error> {
    let mut out = String::new();
    for part in parts.iter() {
        match part.as_str() {
            Some(text) => out.push_str(text),
            None => out.push_str(&str_text(part)?),
        }
    }
    Ok(Value::from(out))
}

fn plus(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number => Ok(value.clone()),
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        _ => Err(invalid(format!("bad operand type for unary +: '{}'", type_name(value)))),
    }
}

/// `value[start:stop:step]`, where a step is given.
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |v: &Value| if v.is_none() { Ok(None) } else { integer(v).map(Some) };
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(invalid("slice step cannot be zero"));
    }
    let (start, stop) = (bound(start)?, bound(stop)?);
    if let Some(range) = value.downcast_object_ref::<Range>() {
        let places = places(range.size(), start, stop, step);
        let from = range.item(places.first);
        let step = range.step.saturating_mul(step);
        return Ok(Value::from_object(Range { start: from, stop: range.item(places.end), step }));
    }
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        let picked: String = places(chars.len(), start, stop, step).map(|at| chars[at]).collect();
        return Ok(Value::from(picked));
    }
    if value.is_undefined() {
        return Err(invalid("a slice of an undefined value"));
    }
    if !is_list(value) {
        return Err(invalid(format!("'{}' object is not subscriptable", type_name(value))));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let picked: Vec<Value> = places(items.len(), start, stop, step).map(|at| items[at].clone()).collect();
    Ok(if is_tuple(value) { Value::from(Tuple::from(picked)) } else { Value::from(picked) })
}

/// `slice.indices(size)` of Python, walked.
struct Places {
    first: i64,
    end: i64,
    step: i64,
}

fn places(size: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Places {
    let size = size as i64;
    let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let inside = |at: i64| if at < 0 { (at.saturating_add(size)).max(lowest) } else { at.min(highest) };
    let first = start.map_or(if step > 0 { lowest } else { highest }, inside);
    let end = stop.map_or(if step > 0 { highest } else { lowest }, inside);
    Places { first, end, step }
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let inside = if self.step > 0 { self.first < self.end } else { self.first > self.end };
        if !inside {
            return None;
        }
        let at = self.first;
        self.first = self.first.saturating_add(self.step);
        usize::try_from(at).ok()
    }
}

/// A method that is named and not called: `x.items is defined`.
#[derive(Debug)]
struct Method {
    of: Value,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::call(state, &self.of, &self.name, args)
    }
}

/// `value.name`: Python looks at the methods of texts, lists and dicts before the keys.
fn attribute(value: &Value, name: &str) -> Result<Value, Error> {
    if methods::has(value, name) {
        return Ok(Value::from_object(Method { of: value.clone(), name: name.into() }));
    }
    value.get_attr(name)
}
