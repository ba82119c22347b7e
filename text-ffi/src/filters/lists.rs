//! Filters of lists and dicts.

use super::{items_of, soft_text, Filter};
use crate::python::arguments::{bind, invalid, sane_width, split, Bound};
use crate::python::operators::add;
use crate::python::values::{compare, equal, sort_by_keys, Group};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};
use std::cmp::Ordering;

pub const FILTERS: &[(&str, Filter)] = &[
    ("batch", batch),
    ("dictsort", dictsort),
    ("first", |_, v, _| Ok(items_of(v)?.into_iter().next().unwrap_or_default())),
    ("groupby", groupby),
    ("items", items),
    ("join", join),
    ("last", |_, v, _| Ok(items_of(v)?.pop().unwrap_or_default())),
    ("list", |_, v, _| items_of(v).map(Value::from)),
    ("map", map),
    ("max", |_, v, given| extreme("max", v, given, Ordering::Greater)),
    ("min", |_, v, given| extreme("min", v, given, Ordering::Less)),
    ("reject", |state, v, given| pick(state, v, given, Picking { keep: false, attribute: false })),
    ("rejectattr", |state, v, given| pick(state, v, given, Picking { keep: false, attribute: true })),
    ("reverse", reverse),
    ("select", |state, v, given| pick(state, v, given, Picking { keep: true, attribute: false })),
    ("selectattr", |state, v, given| pick(state, v, given, Picking { keep: true, attribute: true })),
    ("slice", slice),
    ("sort", sort),
    ("sum", sum),
    ("unique", unique),
];

/// `a.b.0`: what `attribute` names in an item.
struct Path {
    parts: Vec<Value>,
    default: Option<Value>,
}

impl Path {
    fn new(attribute: Option<&Value>, default: Option<&Value>) -> Path {
        let part = |text: &str| match text.parse::<usize>() {
            Ok(at) => Value::from(at),
            Err(_) => Value::from(text),
        };
        let parts = match attribute {
            None => Vec::new(),
            Some(value) => match value.as_str() {
                Some(text) => text.split('.').map(part).collect(),
                None => vec![value.clone()],
            },
        };
        Path { parts, default: default.cloned() }
    }

    fn of(&self, item: &Value) -> Result<Value, Error> {
        let mut value = item.clone();
        for part in &self.parts {
            if value.is_undefined() {
                return Err(invalid(format!("an undefined value has no attribute {part}")));
            }
            value = value.get_item(part).unwrap_or_default();
            if let Some(default) = self.default.as_ref().filter(|_| value.is_undefined()) {
                value = default.clone();
            }
        }
        Ok(value)
    }
}

/// Texts are compared without their case, where a filter is not told otherwise.
fn folded(value: Value, case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        _ => value,
    }
}

fn batch(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("batch", &["linecount", "fill_with"], given)?;
    given.required(0)?;
    let size = sane_width(given.integer(0, 1)?)?.max(1);
    let mut rows: Vec<Vec<Value>> = items_of(value)?.chunks(size).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (given.some(1), rows.last_mut()) {
        last.resize(size, fill.clone());
    }
    Ok(Value::from(rows))
}

fn slice(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("slice", &["slices", "fill_with"], given)?;
    given.required(0)?;
    let count = sane_width(given.integer(0, 1)?)?;
    if count == 0 {
        return Err(invalid("integer division or modulo by zero"));
    }
    let items = items_of(value)?;
    let (each, more) = (items.len() / count, items.len() % count);
    let mut rows = Vec::new();
    let mut at = 0;
    for i in 0..count {
        let end = at + each + usize::from(i < more);
        let mut row = items[at..end].to_vec();
        row.extend(given.some(1).filter(|_| i >= more).cloned());
        rows.push(row);
        at = end;
    }
    Ok(Value::from(rows))
}

fn pairs(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid("Can only get item pairs from a mapping."));
    }
    value.try_iter()?.map(|key| Ok((key.clone(), value.get_item(&key)?))).collect()
}

fn pair(key: Value, value: Value) -> Value {
    Value::from(Tuple::from(vec![key, value]))
}

fn items(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("items", &[], given)?;
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    Ok(Value::from(pairs(value)?.into_iter().map(|(k, v)| pair(k, v)).collect::<Vec<_>>()))
}

// dictsort(value, case_sensitive=False, by='key', reverse=False)
fn dictsort(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("dictsort", &["case_sensitive", "by", "reverse"], given)?;
    let by_key = match given.text(1, "key")? {
        "key" => true,
        "value" => false,
        _ => return Err(invalid("You can only sort by either \"key\" or \"value\"")),
    };
    let mut keyed: Vec<(Value, Value)> = pairs(value)?
        .into_iter()
        .map(|(k, v)| {
            let by = if by_key { k.clone() } else { v.clone() };
            (folded(by, given.truth(0, false)), pair(k, v))
        })
        .collect();
    sort_by_keys(&mut keyed, given.truth(2, false))?;
    Ok(Value::from(keyed.into_iter().map(|(_, pair)| pair).collect::<Vec<_>>()))
}

// groupby(value, attribute, default=None, case_sensitive=False)
fn groupby(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("groupby", &["attribute", "default", "case_sensitive"], given)?;
    let path = Path::new(Some(given.required(0)?), given.some(1));
    let case_sensitive = given.truth(2, false);
    let mut keyed = Vec::new();
    for item in items_of(value)? {
        keyed.push((folded(path.of(&item)?, case_sensitive), item));
    }
    sort_by_keys(&mut keyed, false)?;
    let mut groups = Vec::new();
    for run in keyed.chunk_by(|a, b| equal(&a.0, &b.0)) {
        let list: Vec<Value> = run.iter().map(|(_, item)| item.clone()).collect();
        // The key as the first item has it.
        groups.push(Value::from_object(Group { grouper: path.of(&list[0])?, list: Value::from(list) }));
    }
    Ok(Value::from(groups))
}

// join(value, d='', attribute=None)
fn join(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("join", &["d", "attribute"], given)?;
    let separator = given.get(0).map_or(Ok(String::new()), soft_text)?;
    let path = Path::new(given.some(1), None);
    let mut out = String::new();
    for (i, item) in items_of(value)?.iter().enumerate() {
        if i > 0 {
            out.push_str(&separator);
        }
        out.push_str(&soft_text(&path.of(item)?)?);
    }
    Ok(Value::from(out))
}

/// map(attribute=..., default=...), or map(filter, its arguments).
fn map(state: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let (positional, named) = split(given)?;
    let items = items_of(value)?;
    if positional.is_empty() && named.iter().any(|(name, _)| name == "attribute") {
        let given = bind("map", &["attribute", "default"], given)?;
        let path = Path::new(given.some(0), given.some(1));
        return Ok(Value::from(items.iter().map(|item| path.of(item)).collect::<Result<Vec<_>, _>>()?));
    }
    let Some((name, rest)) = given.split_first().filter(|(name, _)| name.as_str().is_some()) else {
        return Err(invalid("map requires a filter argument"));
    };
    let mut out = Vec::new();
    for item in items {
        let arguments: Vec<Value> = std::iter::once(item).chain(rest.iter().cloned()).collect();
        out.push(state.apply_filter(name.as_str().unwrap_or_default(), &arguments)?);
    }
    Ok(Value::from(out))
}

struct Picking {
    keep: bool,
    attribute: bool,
}

fn pick(state: &mut State, value: &Value, given: &[Value], how: Picking) -> Result<Value, Error> {
    let (path, given) = match (how.attribute, given.split_first()) {
        (false, _) => (Path::new(None, None), given),
        (true, Some((attribute, rest))) => (Path::new(Some(attribute), None), rest),
        (true, None) => return Err(invalid("Missing parameter for attribute name")),
    };
    let mut out = Vec::new();
    for item in items_of(value)? {
        let looked = path.of(&item)?;
        let passes = match given.split_first() {
            None => looked.is_true(),
            Some((name, rest)) => {
                let name = name.as_str().ok_or_else(|| invalid("the name of a test must be a string"))?;
                let arguments: Vec<Value> = std::iter::once(looked).chain(rest.iter().cloned()).collect();
                state.perform_test(name, &arguments)?
            }
        };
        if passes == how.keep {
            out.push(item);
        }
    }
    Ok(Value::from(out))
}

fn extreme(name: &'static str, value: &Value, given: &[Value], wanted: Ordering) -> Result<Value, Error> {
    let given = bind(name, &["case_sensitive", "attribute"], given)?;
    let path = Path::new(given.some(1), None);
    let mut best: Option<(Value, Value)> = None;
    for item in items_of(value)? {
        let key = folded(path.of(&item)?, given.truth(0, false));
        let better = match &best {
            Some((had, _)) => compare(&key, had)? == wanted,
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

fn reverse(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    bind("reverse", &[], given)?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = items_of(value)?;
    items.reverse();
    Ok(Value::from(items))
}

/// Several attributes with commas are compared one after the other.
fn sort_key(given: &Bound, at: usize, item: &Value, case_sensitive: bool) -> Result<Value, Error> {
    let Some(attribute) = given.some(at) else { return Ok(folded(item.clone(), case_sensitive)) };
    let paths: Vec<Path> = match attribute.as_str() {
        Some(text) => text.split(',').map(|one| Path::new(Some(&Value::from(one)), None)).collect(),
        None => vec![Path::new(Some(attribute), None)],
    };
    let keys = paths.iter().map(|path| Ok(folded(path.of(item)?, case_sensitive)));
    Ok(Value::from(keys.collect::<Result<Vec<_>, Error>>()?))
}

// sort(value, reverse=False, case_sensitive=False, attribute=None)
fn sort(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("sort", &["reverse", "case_sensitive", "attribute"], given)?;
    let mut keyed = Vec::new();
    for item in items_of(value)? {
        keyed.push((sort_key(&given, 2, &item, given.truth(1, false))?, item));
    }
    sort_by_keys(&mut keyed, given.truth(0, false))?;
    Ok(Value::from(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

// sum(iterable, attribute=None, start=0)
fn sum(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("sum", &["attribute", "start"], given)?;
    let path = Path::new(given.some(0), None);
    let mut total = given.get(1).cloned().unwrap_or_else(|| Value::from(0));
    for item in items_of(value)? {
        let item = path.of(&item)?;
        if total.as_str().is_some() {
            return Err(invalid("sum() can't sum strings"));
        }
        total = add(&total, &item)?;
    }
    Ok(total)
}

// unique(value, case_sensitive=False, attribute=None)
fn unique(_: &mut State, value: &Value, given: &[Value]) -> Result<Value, Error> {
    let given = bind("unique", &["case_sensitive", "attribute"], given)?;
    let path = Path::new(given.some(1), None);
    let mut seen: Vec<Value> = Vec::new();
    let mut texts = std::collections::HashSet::new();
    let mut out = Vec::new();
    for item in items_of(value)? {
        let key = folded(path.of(&item)?, given.truth(0, false));
        let fresh = match key.as_str() {
            Some(text) => texts.insert(text.to_string()),
            None => !seen.iter().any(|had| equal(had, &key)),
        };
        if fresh {
            if key.as_str().is_none() {
                seen.push(key);
            }
            out.push(item);
        }
    }
    Ok(Value::from(out))
}
