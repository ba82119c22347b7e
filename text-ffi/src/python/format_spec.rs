//! Python's format specifications: `format(value, ">10.3f")`, and the number forms that `%` shares with them.

use crate::pyjson::{float_text, str_text};
use crate::python::arguments::{invalid, sane_width};
use crate::python::text::{byte_of, width};
use crate::python::values::{number_of, type_name};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// `1.5e+04` from Rust's `1.5e4`.
fn exponent_form(value: f64, precision: usize, upper: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{}{sign}{:02}", if upper { 'E' } else { 'e' }, exponent.abs())
}

fn without_zeros(text: &str) -> String {
    let (digits, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    if !digits.contains('.') {
        return text.into();
    }
    format!("{}{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// A finite number without its sign, in the forms e, f and g of C.
pub fn float_digits(
    value: f64,
    kind: char,
    precision: Option<usize>,
    alternate: bool,
) -> Result<String, Error> {
    let precision = precision.unwrap_or(6);
    sane_width(precision as i64)?;
    let value = value.abs();
    if !value.is_finite() {
        let name = if value.is_nan() { "nan" } else { "inf" };
        return Ok(if kind.is_uppercase() { name.to_uppercase() } else { name.into() });
    }
    Ok(match kind {
        'e' | 'E' => exponent_form(value, precision, kind == 'E'),
        'f' | 'F' => format!("{value:.precision$}"),
        _ => {
            let significant = precision.max(1);
            let rounded = exponent_form(value, significant - 1, kind == 'G');
            let exponent: i32 = rounded.split(['e', 'E']).nth(1).and_then(|e| e.parse().ok()).unwrap_or(0);
            let text = if (-4..significant as i32).contains(&exponent) {
                format!("{value:.*}", (significant as i32 - 1 - exponent).max(0) as usize)
            } else {
                rounded
            };
            if alternate {
                text
            } else {
                without_zeros(&text)
            }
        }
    })
}

/// An integer's digits without its sign, with the prefix of `#`.
pub fn integer_digits(value: i128, kind: char, alternate: bool) -> String {
    let size = value.unsigned_abs();
    let (prefix, digits) = match kind {
        'b' => ("0b", format!("{size:b}")),
        'o' => ("0o", format!("{size:o}")),
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        _ => ("", size.to_string()),
    };
    format!("{}{digits}", if alternate { prefix } else { "" })
}

pub fn padded(text: &str, fill: char, align: char, size: usize) -> String {
    let missing = size.saturating_sub(width(text));
    let left = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let fills = |n: usize| std::iter::repeat_n(fill, n);
    fills(left).chain(text.chars()).chain(fills(missing - left)).collect()
}

struct Spec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn read(text: &str) -> Result<Spec, Error> {
        let chars: Vec<char> = text.chars().collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>=^".contains(*c));
        let mut at = 0;
        let mut spec = Spec {
            fill: ' ',
            align: None,
            sign: '-',
            alternate: false,
            width: 0,
            grouping: None,
            precision: None,
            kind: None,
        };
        if is_align(chars.get(1)) {
            (spec.fill, spec.align) = (chars[0], Some(chars[1]));
            at = 2;
        } else if is_align(chars.first()) {
            spec.align = Some(chars[0]);
            at = 1;
        }
        let takes = |wanted: &str, at: &mut usize| {
            let found = chars.get(*at).copied().filter(|c| wanted.contains(*c));
            *at += usize::from(found.is_some());
            found
        };
        spec.sign = takes("+- ", &mut at).unwrap_or('-');
        spec.alternate = takes("#", &mut at).is_some();
        if takes("0", &mut at).is_some() && spec.align.is_none() {
            (spec.fill, spec.align) = ('0', Some('='));
        }
        let number = |at: &mut usize| -> Result<Option<usize>, Error> {
            let mut value = None;
            while let Some(digit) = takes("0123456789", at) {
                let digit = i64::from(digit as u32 - '0' as u32);
                value = Some(sane_width(value.unwrap_or(0) as i64 * 10 + digit)?);
            }
            Ok(value)
        };
        spec.width = number(&mut at)?.unwrap_or(0);
        let at_grouping = chars.get(at).copied().filter(|c| ",_".contains(*c));
        at += usize::from(at_grouping.is_some());
        spec.grouping = at_grouping;
        if chars.get(at) == Some(&'.') {
            at += 1;
            spec.precision = number(&mut at)?;
            if spec.precision.is_none() {
                return Err(invalid("Format specifier missing precision"));
            }
        }
        spec.kind = chars.get(at).copied();
        if chars.len() > at + 1 {
            return Err(invalid(format!("Invalid format specifier '{text}'")));
        }
        Ok(spec)
    }

    fn unknown(&self, value: &Value) -> Error {
        let kind = self.kind.unwrap_or(' ');
        invalid(format!("Unknown format code '{kind}' for object of type '{}'", type_name(value)))
    }

    fn text(&self, text: &str) -> String {
        let cut = self.precision.map_or(text, |most| &text[..byte_of(text, most)]);
        padded(cut, self.fill, self.align.filter(|a| *a != '=').unwrap_or('<'), self.width)
    }

    fn number(&self, negative: bool, digits: &str) -> String {
        let sign = match (negative, self.sign) {
            (true, _) => "-",
            (_, '+') => "+",
            (_, ' ') => " ",
            _ => "",
        };
        let prefix = if digits.starts_with("0b")
            || digits.starts_with("0o")
            || digits.starts_with("0x")
            || digits.starts_with("0X")
        {
            &digits[..2]
        } else {
            ""
        };
        let digits = &digits[prefix.len()..];
        let whole = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let whole = if matches!(self.kind, Some('b' | 'o' | 'x' | 'X')) {
            whole
        } else {
            digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())
        };
        let (whole, rest) = digits.split_at(whole);
        let before = sign.len() + prefix.len();
        let zeros = self.fill == '0' && self.align == Some('=');
        let most = if zeros { self.width.saturating_sub(before + width(rest)) } else { 0 };
        let whole = self.grouped(whole, most);
        if self.align == Some('=') {
            let inner = padded(&format!("{whole}{rest}"), self.fill, '>', self.width.saturating_sub(before));
            return format!("{sign}{prefix}{inner}");
        }
        padded(&format!("{sign}{prefix}{whole}{rest}"), self.fill, self.align.unwrap_or('>'), self.width)
    }

    /// With separators; zeros that fill a width have them too.
    fn grouped(&self, whole: &str, least: usize) -> String {
        let Some(separator) = self.grouping else { return whole.into() };
        let each = if matches!(self.kind, Some('b' | 'o' | 'x' | 'X')) { 4 } else { 3 };
        let join = |digits: &str| {
            let size = digits.len();
            let mut out = String::new();
            for (i, c) in digits.chars().enumerate() {
                if i > 0 && (size - i) % each == 0 {
                    out.push(separator);
                }
                out.push(c);
            }
            out
        };
        let mut digits = whole.to_string();
        while join(&digits).len() < least {
            digits.insert(0, '0');
        }
        join(&digits)
    }

    fn float(&self, value: &Value) -> Result<String, Error> {
        let number = number_of(value);
        let negative = number.is_sign_negative() && !number.is_nan();
        let digits = match self.kind {
            None if self.precision.is_none() => float_text(number.abs(), false),
            None => {
                let text = float_digits(number, 'g', self.precision, false)?;
                let plain = text.bytes().all(|b| b.is_ascii_digit());
                if plain {
                    text + ".0"
                } else {
                    text
                }
            }
            Some('%') => float_digits(number * 100.0, 'f', self.precision, false)? + "%",
            Some('n') => float_digits(number, 'g', self.precision, self.alternate)?,
            Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')) => {
                float_digits(number, kind, self.precision, self.alternate)?
            }
            _ => return Err(self.unknown(value)),
        };
        Ok(self.number(negative, &digits))
    }
}

/// `format(value, spec)`.
pub fn format_value(value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return str_text(value);
    }
    let read = Spec::read(spec)?;
    match value.kind() {
        ValueKind::String => match read.kind {
            None | Some('s') if read.align != Some('=') || read.fill == '0' => {
                Ok(read.text(value.as_str().unwrap_or_default()))
            }
            _ => Err(read.unknown(value)),
        },
        ValueKind::Number | ValueKind::Bool => {
            let whole = value.kind() == ValueKind::Bool || value.is_integer();
            match read.kind {
                None | Some('b' | 'd' | 'o' | 'x' | 'X' | 'n') if whole => {
                    if read.precision.is_some() {
                        return Err(invalid("Precision not allowed in integer format specifier"));
                    }
                    let number = match value.kind() {
                        ValueKind::Bool => i128::from(value.is_true()),
                        _ => i128::try_from(value.clone())?,
                    };
                    let digits = integer_digits(number, read.kind.unwrap_or('d'), read.alternate);
                    Ok(read.number(number < 0, &digits))
                }
                Some('c') if whole => {
                    let code = u32::try_from(value.clone())?;
                    let c = char::from_u32(code).ok_or_else(|| invalid("%c arg not in range(0x110000)"))?;
                    Ok(read.text(&c.to_string()))
                }
                _ => read.float(value),
            }
        }
        _ => {
            let name = type_name(value);
            Err(invalid(format!("unsupported format string passed to {name}.__format__")))
        }
    }
}
