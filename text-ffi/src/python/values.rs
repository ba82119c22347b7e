//! Python's order and equality of values, and objects that print otherwise than minijinja's: ranges, views of dicts,
//! groups.

use crate::python::arguments::{integer, invalid, unnamed};
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, Value};
use std::cmp::Ordering;
use std::sync::Arc;

const DEEPEST: usize = 200;

pub fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<Group>().is_some()
}

pub fn is_numeric(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

pub fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Map => "dict",
        _ if is_tuple(value) => "tuple",
        _ => "list",
    }
}

/// As a float; a bool is 0 or 1.
pub fn number_of(value: &Value) -> f64 {
    match value.kind() {
        ValueKind::Bool => f64::from(u8::from(value.is_true())),
        _ => f64::try_from(value.clone()).unwrap_or(f64::NAN),
    }
}

/// Python's `==`, in which True is 1.
pub fn equal(a: &Value, b: &Value) -> bool {
    if is_numeric(a) && is_numeric(b) && a.kind() != b.kind() {
        return number_of(a) == number_of(b);
    }
    a == b
}

/// Python's order of all that it orders: numbers, texts, lists, tuples.
pub fn compare(a: &Value, b: &Value) -> Result<Ordering, Error> {
    compare_within(a, b, 0)
}

fn compare_within(a: &Value, b: &Value, depth: usize) -> Result<Ordering, Error> {
    if depth > DEEPEST {
        return Err(invalid("values that are nested too deeply are compared"));
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(a.cmp(b));
    }
    if is_numeric(a) && is_numeric(b) {
        if a.is_integer() && b.is_integer() {
            return Ok(a.cmp(b));
        }
        return Ok(number_of(a).partial_cmp(&number_of(b)).unwrap_or(Ordering::Equal));
    }
    if !(is_list(a) && is_list(b) && is_tuple(a) == is_tuple(b)) {
        let (a, b) = (type_name(a), type_name(b));
        return Err(invalid(format!("'<' not supported between instances of '{a}' and '{b}'")));
    }
    let (mut left, mut right) = (a.try_iter()?, b.try_iter()?);
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ok(Ordering::Equal),
            (None, _) => return Ok(Ordering::Less),
            (_, None) => return Ok(Ordering::Greater),
            (Some(x), Some(y)) if equal(&x, &y) => {}
            (Some(x), Some(y)) => return compare_within(&x, &y, depth + 1),
        }
    }
}

/// Sorts by keys, stable in both directions.
pub fn sort_by_keys<T>(items: &mut [(Value, T)], reverse: bool) -> Result<(), Error> {
    let mut wrong = None;
    items.sort_by(|a, b| {
        let order = compare(&a.0, &b.0).unwrap_or_else(|error| {
            wrong.get_or_insert(error);
            Ordering::Equal
        });
        if reverse {
            order.reverse()
        } else {
            order
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// `range(start, stop, step)`, which prints as such.
#[derive(Debug)]
pub struct Range {
    pub start: i64,
    pub stop: i64,
    pub step: i64,
}

impl Range {
    pub fn new(given: &[Value]) -> Result<Range, Error> {
        const LONGEST: usize = 100_000; // jinja2's sandbox has this limit
        let given = unnamed("range", given, 1, 3)?;
        let (start, stop) = match given.len() {
            1 => (0, integer(&given[0])?),
            _ => (integer(&given[0])?, integer(&given[1])?),
        };
        let step = given.get(2).map_or(Ok(1), integer)?;
        if step == 0 {
            return Err(invalid("range() arg 3 must not be zero"));
        }
        let range = Range { start, stop, step };
        if range.size() > LONGEST {
            return Err(invalid(format!("range() has more than {LONGEST} items")));
        }
        Ok(range)
    }

    pub fn size(&self) -> usize {
        let (from, to, step) = (i128::from(self.start), i128::from(self.stop), i128::from(self.step));
        let size = if step > 0 { (to - from + step - 1) / step } else { (from - to - step - 1) / -step };
        usize::try_from(size).unwrap_or(0)
    }

    /// The number at a place; one behind the end is allowed.
    pub fn item(&self, at: i64) -> i64 {
        self.start.saturating_add(at.saturating_mul(self.step))
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = key.as_usize().filter(|at| *at < self.size())?;
        Some(Value::from(self.item(at as i64)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.size())
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "range({}, {}", self.start, self.stop)?;
        if self.step != 1 {
            write!(f, ", {}", self.step)?;
        }
        f.write_str(")")
    }
}

/// What `dict.items()`, `.keys()` and `.values()` return.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let this = self.clone();
        Enumerator::Iter(Box::new((0..self.items.len()).map(move |i| this.items[i].clone())))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

/// One of `groupby`'s pairs: a tuple with names.
#[derive(Debug)]
pub struct Group {
    pub grouper: Value,
    pub list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(0), _) | (_, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1), _) | (_, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}
