//! `"..." % values`.

use crate::pyjson::{repr_text, str_text};
use crate::python::arguments::{integer, invalid, sane_width};
use crate::python::format_spec::{float_digits, integer_digits, padded};
use crate::python::text::{byte_of, to_ascii};
use crate::python::values::{is_numeric, is_tuple, number_of, type_name};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::iter::Peekable;
use std::str::Chars;

#[derive(Default)]
struct Directive {
    left: bool,
    plus: bool,
    blank: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// Where the values come from: a tuple's items in order, a mapping by name, or one value.
struct Values<'a> {
    all: &'a Value,
    items: Vec<Value>,
    next: usize,
    named: bool,
}

impl Values<'_> {
    fn take(&mut self) -> Result<Value, Error> {
        let value = self.items.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| invalid("not enough arguments for format string"))
    }

    fn by_name(&mut self, name: &str) -> Result<Value, Error> {
        if self.all.kind() != ValueKind::Map {
            return Err(invalid("format requires a mapping"));
        }
        self.named = true;
        let value = self.all.get_item(&Value::from(name))?;
        if value.is_undefined() {
            return Err(invalid(format!("format: no key '{name}'")));
        }
        Ok(value)
    }
}

pub fn format(text: &str, values: &Value) -> Result<String, Error> {
    let items = match is_tuple(values) {
        true => values.try_iter()?.collect(),
        false => vec![values.clone()],
    };
    let mut values = Values { all: values, items, next: 0, named: false };
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let name = match rest.next_if_eq(&'(') {
            Some(_) => Some(name_of(&mut rest)?),
            None => None,
        };
        let directive = directive(&mut rest, &mut values)?;
        while rest.next_if(|c| "hlL".contains(*c)).is_some() {}
        let kind = rest.next().ok_or_else(|| invalid("incomplete format"))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match &name {
            Some(name) => values.by_name(name)?,
            None => values.take()?,
        };
        out.push_str(&directive.write(kind, &value)?);
    }
    let unused = values.next < values.items.len() && !values.named;
    if unused
        && !matches!(values.all.kind(), ValueKind::Map | ValueKind::Undefined)
        && !is_list_of(values.all)
    {
        return Err(invalid("not all arguments converted during string formatting"));
    }
    Ok(out)
}

/// Python takes a list for a mapping here.
fn is_list_of(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && !is_tuple(value)
}

fn name_of(rest: &mut Peekable<Chars>) -> Result<String, Error> {
    let mut name = String::new();
    let mut depth = 1;
    for c in rest.by_ref() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return Ok(name);
        }
        name.push(c);
    }
    Err(invalid("incomplete format key"))
}

fn directive(rest: &mut Peekable<Chars>, values: &mut Values) -> Result<Directive, Error> {
    let mut out = Directive::default();
    while let Some(flag) = rest.next_if(|c| "-+ 0#".contains(*c)) {
        match flag {
            '-' => out.left = true,
            '+' => out.plus = true,
            ' ' => out.blank = true,
            '0' => out.zero = true,
            _ => out.alternate = true,
        }
    }
    let mut number = |rest: &mut Peekable<Chars>| -> Result<Option<i64>, Error> {
        if rest.next_if_eq(&'*').is_some() {
            return integer(&values.take()?).map(Some);
        }
        let mut size = None;
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            let digit = i64::from(digit as u32 - '0' as u32);
            size = Some(sane_width(size.unwrap_or(0) * 10 + digit)? as i64);
        }
        Ok(size)
    };
    let width = number(rest)?.unwrap_or(0);
    out.left |= width < 0;
    out.width = sane_width(width.saturating_abs())?;
    if rest.next_if_eq(&'.').is_some() {
        out.precision = Some(sane_width(number(rest)?.unwrap_or(0))?);
    }
    Ok(out)
}

impl Directive {
    fn write(&self, kind: char, value: &Value) -> Result<String, Error> {
        match kind {
            's' => self.text(&str_text(value)?),
            'r' => self.text(&repr_text(value)?),
            'a' => self.text(&to_ascii(&repr_text(value)?)),
            'c' => match value.as_str() {
                Some(text) if text.chars().count() == 1 => self.text(text),
                None if is_numeric(value) => {
                    let code = u32::try_from(integer(value)?).ok().and_then(char::from_u32);
                    self.text(&code.ok_or_else(|| invalid("%c arg not in range(0x110000)"))?.to_string())
                }
                _ => Err(invalid("%c requires int or char")),
            },
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                if !is_numeric(value) || (!matches!(kind, 'd' | 'i' | 'u') && !is_whole(value)) {
                    let name = type_name(value);
                    return Err(invalid(format!("%{kind} format: a number is required, not {name}")));
                }
                let number = match is_whole(value) && value.kind() == ValueKind::Number {
                    true => i128::try_from(value.clone())?,
                    false => number_of(value) as i128,
                };
                let mut digits = integer_digits(number, kind, self.alternate);
                if let Some(least) = self.precision {
                    digits = padded(&digits, '0', '>', least);
                }
                Ok(self.number(number < 0, &digits))
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                if !is_numeric(value) {
                    return Err(invalid(format!("must be real number, not {}", type_name(value))));
                }
                let number = number_of(value);
                let digits = float_digits(number, kind, self.precision, self.alternate)?;
                Ok(self.number(number.is_sign_negative() && !number.is_nan(), &digits))
            }
            _ => Err(invalid(format!("unsupported format character '{kind}'"))),
        }
    }

    fn text(&self, text: &str) -> Result<String, Error> {
        let cut = self.precision.map_or(text, |most| &text[..byte_of(text, most)]);
        Ok(padded(cut, ' ', if self.left { '<' } else { '>' }, self.width))
    }

    fn number(&self, negative: bool, digits: &str) -> String {
        let sign = match negative {
            true => "-",
            false if self.plus => "+",
            false if self.blank => " ",
            false => "",
        };
        if self.zero && !self.left {
            let prefix = if digits.get(1..2).is_some_and(|c| "xXob".contains(c)) { 2 } else { 0 };
            let (prefix, digits) = digits.split_at(prefix);
            let size = self.width.saturating_sub(sign.len() + prefix.len());
            return format!("{sign}{prefix}{}", padded(digits, '0', '>', size));
        }
        padded(&format!("{sign}{digits}"), ' ', if self.left { '<' } else { '>' }, self.width)
    }
}

fn is_whole(value: &Value) -> bool {
    value.kind() == ValueKind::Bool || value.is_integer()
}
