//! Functions that templates call: jinja2's and transformers'.

use crate::pyjson::str_text;
use crate::python::arguments::{bind, invalid, not_had, split, with_named};
use crate::python::values::{type_name, Range};
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

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
    let builtin = env.globals().find(|(name, _)| *name == "namespace").map(|(_, value)| value);
    env.add_function("namespace", move |state: &mut State, given: Rest<Value>, named: Kwargs| {
        let fields = dict(given, named)?;
        let hidden = fields.try_iter()?.any(|name| name.as_str().is_some_and(|name| name.starts_with('_')));
        if hidden {
            return Err(invalid("a namespace cannot have names that begin with an underscore"));
        }
        builtin.clone().unwrap_or_default().call(state, &[fields])
    });
    env.add_function("dict", dict);
    env.add_function("range", |given: Rest<Value>| Range::new(&given).map(Value::from_object));
    env.add_function("cycler", |given: Rest<Value>| {
        if given.is_empty() {
            return Err(invalid("at least one item has to be provided"));
        }
        Ok(Value::from_object(Cycler { items: given.to_vec(), at: AtomicUsize::new(0) }))
    });
    env.add_function("joiner", |given: Rest<Value>, named: Kwargs| {
        let given = with_named(&given, named);
        let given = bind("joiner", &["sep"], &given)?;
        let separator = given.get(0).map_or(Ok(", ".into()), str_text)?;
        Ok::<_, Error>(Value::from_object(Joiner { separator, used: AtomicBool::new(false) }))
    });
    env.add_function("lipsum", |_: Rest<Value>, _: Kwargs| {
        Err::<Value, _>(not_had("the function lipsum, random text"))
    });
    env.add_function("raise_exception", |message: &Value| {
        let message = str_text(message)?;
        Err::<Value, _>(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    env.add_function("strftime_now", |format: String| strftime_now(&format));
}

pub fn is_callable(value: &Value) -> bool {
    value.is_undefined() || value.kind() == ValueKind::Plain || format!("{value:?}").starts_with("<macro")
}

/// `dict(mapping or pairs, **more)`.
fn dict(given: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let given = with_named(&given, named);
    let (positional, named) = split(&given)?;
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    match positional {
        [] => {}
        [map] if map.kind() == ValueKind::Map => {
            for key in map.try_iter()? {
                pairs.push((key.clone(), map.get_item(&key)?));
            }
        }
        [list] => {
            for pair in list.try_iter()? {
                let mut both = pair.try_iter()?;
                match (both.next(), both.next(), both.next()) {
                    (Some(key), Some(value), None) => pairs.push((key, value)),
                    _ => return Err(invalid("dict() needs pairs of a key and a value")),
                }
            }
        }
        _ => return Err(invalid(format!("dict expected at most 1 argument, got {}", positional.len()))),
    }
    pairs.extend(named.into_iter().map(|(name, value)| (Value::from(name), value)));
    Ok(Value::from_pairs(pairs))
}

#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let current = || self.items[self.at.load(Ordering::Relaxed)].clone();
        (key.as_str() == Some("current")).then(current)
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        _: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "next" => {
                let at = self.at.load(Ordering::Relaxed);
                self.at.store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

#[derive(Debug)]
struct Joiner {
    separator: String,
    used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        let text = if self.used.swap(true, Ordering::Relaxed) { self.separator.as_str() } else { "" };
        Ok(Value::from(text))
    }
}

// datetime.now().strftime(format): CPython calls libc's strftime too.
fn strftime_now(format: &str) -> Result<String, Error> {
    let format = std::ffi::CString::new(format).map_err(|e| invalid(e.to_string()))?;
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

/// A method of a value whose type has none of that name.
pub fn no_method(value: &Value, method: &str) -> Error {
    let detail = format!("a '{}' has no method {method}", type_name(value));
    Error::new(ErrorKind::UnknownMethod, detail)
}
