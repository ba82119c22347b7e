//! `str.format`.

use crate::pyjson::{repr_text, str_text};
use crate::python::arguments::{invalid, split};
use crate::python::format_spec::format_value;
use crate::python::text::to_ascii;
use minijinja::{Error, Value};

struct Fields<'a> {
    positional: &'a [Value],
    named: Vec<(String, Value)>,
    next: usize, // of fields without a name
    numbered: bool,
}

pub fn format(text: &str, given: &[Value]) -> Result<String, Error> {
    let (positional, named) = split(given)?;
    Fields { positional, named, next: 0, numbered: false }.fill(text, 2)
}

impl Fields<'_> {
    /// `depth`: how many levels of fields within specifications may follow.
    fn fill(&mut self, text: &str, depth: usize) -> Result<String, Error> {
        if depth == 0 {
            return Err(invalid("Max string recursion exceeded"));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if rest.starts_with(brace) {
                out.push_str(brace);
                rest = &rest[1..];
                continue;
            }
            if brace == "}" {
                return Err(invalid("Single '}' encountered in format string"));
            }
            let end = field_end(rest).ok_or_else(|| invalid("expected '}' before end of string"))?;
            out.push_str(&self.field(&rest[..end], depth)?);
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        // A name may hold brackets, and those anything.
        let mut bracket = false;
        let name_end = field.find(|c| {
            bracket = (bracket || c == '[') && c != ']';
            !bracket && (c == '!' || c == ':')
        });
        let (name, rest) = field.split_at(name_end.unwrap_or(field.len()));
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let mut chars = rest.chars();
                (chars.next(), chars.as_str().strip_prefix(':').unwrap_or(chars.as_str()))
            }
            None => (None, rest.strip_prefix(':').unwrap_or(rest)),
        };
        let mut value = self.value(name)?;
        match conversion {
            None => {}
            Some('s') => value = Value::from(str_text(&value)?),
            Some('r') => value = Value::from(repr_text(&value)?),
            Some('a') => value = Value::from(to_ascii(&repr_text(&value)?)),
            Some(c) => return Err(invalid(format!("Unknown conversion specifier '{c}'"))),
        }
        let spec =
            self.fill(spec, depth - 1)
                .or_else(|e| if spec.contains('{') { Err(e) } else { Ok(spec.into()) })?;
        format_value(&value, &spec)
    }

    fn value(&mut self, name: &str) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut path) = name.split_at(end);
        let mut value = match first.parse::<usize>() {
            Ok(at) => {
                self.numbered = true;
                self.positional.get(at).cloned()
            }
            Err(_) if first.is_empty() => {
                if self.numbered {
                    return Err(invalid(
                        "cannot switch from manual field specification to automatic field numbering",
                    ));
                }
                self.next += 1;
                self.positional.get(self.next - 1).cloned()
            }
            Err(_) => self.named.iter().find(|(key, _)| key == first).map(|(_, value)| value.clone()),
        }
        .ok_or_else(|| invalid(format!("format: no argument for '{{{first}}}'")))?;
        // As jinja2's sandbox reads members: what is not there is undefined.
        while !path.is_empty() {
            let key = if let Some(rest) = path.strip_prefix('[') {
                let end = rest.find(']').ok_or_else(|| invalid("Missing ']' in format string"))?;
                path = &rest[end + 1..];
                rest[..end].parse::<i64>().map_or_else(|_| Value::from(&rest[..end]), Value::from)
            } else {
                let rest = &path[1..];
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                path = &rest[end..];
                Value::from(&rest[..end])
            };
            value = value.get_item(&key)?;
        }
        Ok(value)
    }
}

/// Where the field ends whose inside begins the text.
fn field_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        None
    })
}
