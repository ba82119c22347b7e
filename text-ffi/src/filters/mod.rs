//! jinja2's filters and tests, as jinja2 3.1 has them, with transformers' `tojson`.

pub mod html;
mod lists;
mod numbers;
mod pprint;
pub mod text;

use crate::globals::is_callable;
use crate::pyjson::{str_text, tojson};
use crate::python::arguments::{bind, integer, invalid, not_had, with_named};
use crate::python::values::{is_list, type_name, View};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value};

/// Filters of minijinja that jinja2 does not have.
const OF_MINIJINJA: [&str; 6] = ["split", "lines", "bool", "chain", "zip", "lstrip"];
/// Tests of minijinja that jinja2 does not have.
const TESTS_OF_MINIJINJA: [&str; 4] = ["safe", "int", "startingwith", "endingwith"];

/// A filter: the value and the arguments.
type Filter = fn(&mut State, &Value, &[Value]) -> Result<Value, Error>;

pub fn add_all(env: &mut Environment<'_>) {
    for name in OF_MINIJINJA {
        env.remove_filter(name);
    }
    for name in TESTS_OF_MINIJINJA {
        env.remove_test(name);
    }
    let general: [(&'static str, Filter); 9] = [
        ("default", default),
        ("d", default),
        ("string", |_, v, _| if v.is_safe() { Ok(v.clone()) } else { str_text(v).map(Value::from) }),
        ("length", length),
        ("count", length),
        ("attr", attr),
        ("random", |_, _, _| Err(not_had("the filter random"))),
        ("tojson", tojson),
        ("pprint", |_, v, _| pprint::pprint(v).map(Value::from)),
    ];
    let all = general
        .iter()
        .chain(text::FILTERS)
        .chain(numbers::FILTERS)
        .chain(lists::FILTERS)
        .chain(html::FILTERS);
    for &(name, filter) in all {
        env.add_filter(name, move |state: &mut State, value: &Value, rest: Rest<Value>, named: Kwargs| {
            filter(state, value, &with_named(&rest, named))
        });
    }
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", |v: &Value| is_iterable(v) && v.downcast_object_ref::<View>().is_none());
    env.add_test("callable", is_callable);
    env.add_test("divisibleby", divisible_by);
}

// default(value, default_value='', boolean=False)
fn default(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("default", &["default_value", "boolean"], given)?;
    let missing = value.is_undefined() || (given.truth(1, false) && !value.is_true());
    Ok(if missing { given.get(0).cloned().unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

fn length(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("length", &[], given)?;
    if value.is_undefined() {
        return Ok(Value::from(0));
    }
    let size = value.len().filter(|_| value.kind() != ValueKind::Plain);
    size.map(Value::from)
        .ok_or_else(|| invalid(format!("object of type '{}' has no len()", type_name(value))))
}

/// Python's attributes, not the keys of a dict: those of namespaces and loops, and methods.
fn attr(state: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("attr", &["name"], given)?;
    let name = given.required(0)?;
    if crate::methods::has(value, name.as_str().unwrap_or_default()) {
        let method = state.lookup(crate::python::operators::ATTRIBUTE);
        return method.unwrap_or_default().call(state, &[value.clone(), name.clone()]);
    }
    let object = value.as_object().is_some_and(|o| {
        !o.type_name().contains("IndexMap") && !o.type_name().contains("BTreeMap") && !is_list(value)
    });
    if object && value.kind() != ValueKind::Undefined {
        return value.get_item(name);
    }
    Ok(Value::UNDEFINED)
}

fn is_iterable(value: &Value) -> bool {
    let kinds = [ValueKind::Seq, ValueKind::Map, ValueKind::Iterable, ValueKind::String];
    value.is_undefined() || kinds.contains(&value.kind())
}

fn divisible_by(value: &Value, rest: Rest<Value>, named: Kwargs) -> Result<bool, Error> {
    let given = with_named(&rest, named);
    let given = bind("divisibleby", &["num"], &given)?;
    let (value, by) = (integer(value)?, integer(given.required(0)?)?);
    if by == 0 {
        return Err(invalid("integer modulo by zero"));
    }
    Ok(value.wrapping_rem(by) == 0)
}

/// The text of a value that jinja2 takes for one (`soft_str`).
fn soft_text(value: &Value) -> Result<String, Error> {
    str_text(value)
}

/// What is iterated over; nothing for an undefined value.
fn items_of(value: &Value) -> Result<Vec<Value>, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(Vec::new()),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            Ok(text.chars().map(|c| Value::from(c.to_string())).collect())
        }
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| item.validate_item()).collect()
        }
        _ => Err(invalid(format!("'{}' object is not iterable", type_name(value)))),
    }
}

/// An iterator's errors are values; this makes errors of them again.
trait ValidItem {
    fn validate_item(self) -> Result<Value, Error>;
}

impl ValidItem for Value {
    fn validate_item(self) -> Result<Value, Error> {
        match self.kind() {
            ValueKind::Invalid => Err(invalid(self.to_string())),
            _ => Ok(self),
        }
    }
}
