//! `pprint.pformat` of Python: 80 columns, keys sorted.

use crate::pyjson::{check_printable, repr_text};
use crate::python::text::{is_space, repr, split_lines, width};
use crate::python::values::{compare, is_list, is_tuple, type_name};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::cmp::Ordering;

const COLUMNS: usize = 80;

pub fn pprint(value: &Value) -> Result<String, Error> {
    check_printable(value)?;
    let mut out = String::new();
    write(&mut out, value, 0, 0, 0)?;
    Ok(out)
}

fn sorted_pairs(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    let mut pairs = value
        .try_iter()?
        .map(|key| Ok((key.clone(), value.get_item(&key)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    pairs.sort_by(|a, b| {
        compare(&a.0, &b.0).unwrap_or_else(|_| type_name(&a.0).cmp(type_name(&b.0)).then(Ordering::Equal))
    });
    Ok(pairs)
}

/// In one line; the keys of dicts are sorted at every level.
fn one_line(value: &Value) -> Result<String, Error> {
    if value.kind() == ValueKind::Map {
        let parts = sorted_pairs(value)?;
        let parts = parts.iter().map(|(k, v)| Ok(format!("{}: {}", one_line(k)?, one_line(v)?)));
        return Ok(format!("{{{}}}", parts.collect::<Result<Vec<_>, Error>>()?.join(", ")));
    }
    if is_list(value) && value.len().is_some() {
        let parts = value.try_iter()?.map(|item| one_line(&item)).collect::<Result<Vec<_>, _>>()?;
        return Ok(match (is_tuple(value), parts.len()) {
            (true, 1) => format!("({},)", parts[0]),
            (true, _) => format!("({})", parts.join(", ")),
            (false, _) => format!("[{}]", parts.join(", ")),
        });
    }
    repr_text(value)
}

fn new_line(out: &mut String, indent: usize) {
    out.push_str(",\n");
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write(
    out: &mut String,
    value: &Value,
    indent: usize,
    allowance: usize,
    level: usize,
) -> Result<(), Error> {
    let line = one_line(value)?;
    if width(&line) + indent + allowance <= COLUMNS {
        out.push_str(&line);
        return Ok(());
    }
    match value.kind() {
        ValueKind::Map => {
            out.push('{');
            let pairs = sorted_pairs(value)?;
            for (i, (key, item)) in pairs.iter().enumerate() {
                if i > 0 {
                    new_line(out, indent + 1);
                }
                let key = one_line(key)?;
                out.push_str(&format!("{key}: "));
                let last = i + 1 == pairs.len();
                let allowance = if last { allowance + 1 } else { 1 };
                write(out, item, indent + 1 + width(&key) + 2, allowance, level + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let (open, close) = match (is_tuple(value), items.len()) {
                (true, 1) => ("(", ",)"),
                (true, _) => ("(", ")"),
                (false, _) => ("[", "]"),
            };
            out.push_str(open);
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    new_line(out, indent + 1);
                }
                let last = i + 1 == items.len();
                write(out, item, indent + 1, if last { allowance + close.len() } else { 1 }, level + 1)?;
            }
            out.push_str(close);
        }
        ValueKind::String => {
            write_text(out, value.as_str().unwrap_or_default(), indent, allowance, level == 0)
        }
        _ => out.push_str(&line),
    }
    Ok(())
}

/// A long text is cut behind blanks into several literals.
fn write_text(out: &mut String, text: &str, indent: usize, allowance: usize, outermost: bool) {
    let more = usize::from(outermost);
    let (indent, allowance) = (indent + more, allowance + more);
    let room = COLUMNS.saturating_sub(indent);
    let lines = split_lines(text, true);
    let mut chunks: Vec<String> = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let last_line = i + 1 == lines.len();
        let whole = repr(line);
        if width(&whole) <= if last_line { room.saturating_sub(allowance) } else { room } {
            chunks.push(whole);
            continue;
        }
        let parts = words_with_blanks(line);
        let mut current = String::new();
        for (j, part) in parts.iter().enumerate() {
            let last = last_line && j + 1 == parts.len();
            let candidate = format!("{current}{part}");
            if width(&repr(&candidate)) > if last { room.saturating_sub(allowance) } else { room } {
                if !current.is_empty() {
                    chunks.push(repr(&current));
                }
                current = part.to_string();
            } else {
                current = candidate;
            }
        }
        if !current.is_empty() {
            chunks.push(repr(&current));
        }
    }
    if chunks.len() == 1 {
        out.push_str(&chunks[0]);
        return;
    }
    let between = format!("\n{}", " ".repeat(indent));
    let joined = chunks.join(&between);
    out.push_str(&if outermost { format!("({joined})") } else { joined });
}

/// `re.findall(r'\S*\s*', line)` without the empty ones.
fn words_with_blanks(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let blank = rest.find(is_space).unwrap_or(rest.len());
        let end = rest[blank..].find(|c| !is_space(c)).map_or(rest.len(), |at| blank + at);
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}
