//! `apply_chat_template` of transformers 5.23, up to the rendered text.

use crate::abi::Failure;
use crate::environment::{environment, TEMPLATE};
use crate::generation;
use crate::globals::Raised;
use crate::python::arguments::NotHad;
use crate::python::text::is_space;
use crate::rewrite::rewrite;
use crate::sandbox::{self, Limits, MB};
use crate::scan;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::Arc;

/// transformers appends this to the message to be continued, and cuts the text there.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
/// Three names for one thing; templates read the first two.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// What one rendering may use: far above what a template needs for a conversation of that size, and bounded for
/// one that was made to harm. `src/text/chat_template.h` names them for users.
const COMPILING: Limits = Limits { memory: 64 * MB, seconds: 2.0, nests: true };
const FUEL: u64 = 5_000_000; // instructions of minijinja
const FUEL_PER_BYTE: u64 = 50;
const MEMORY: usize = 64 * MB;
const MEMORY_PER_BYTE: usize = 32;
const SECONDS: f64 = 1.0;
const SECONDS_PER_MB: f64 = 2.0;
/// What namespaces that hold themselves may keep for ever, all renderings together.
const MOST_LOST: isize = 32 * MB as isize;
static LOST: AtomicIsize = AtomicIsize::new(0);

pub struct ChatTemplate {
    env: Environment<'static>,
    source: String,
    has_generation: bool,
}

pub struct Rendered {
    pub text: String,
    /// Byte ranges of the `{% generation %}` blocks in `text`.
    pub spans: Vec<(usize, usize)>,
}

impl ChatTemplate {
    /// Compiles a template; the limits are those of the sandbox and of `scan`.
    pub fn read(source: String) -> Result<Arc<Self>, Failure> {
        scan::check(&source).map_err(|found| Failure::Limit(format!("is refused: {found}")))?;
        Ok(Arc::new(sandbox::run(&COMPILING, move || ChatTemplate::new(&source))?.value?))
    }

    /// Renders a request (JSON, as described in `include/text_ffi.h`) within limits that grow with it.
    pub fn render_within_limits(self: &Arc<Self>, request: &[u8]) -> Result<Rendered, Failure> {
        check_lost()?;
        let limits = Self::limits(request.len());
        // Owned by both sides: a rendering that is stopped keeps its own.
        let request: Arc<[u8]> = request.into();
        let (template, theirs) = (self.clone(), request.clone());
        let done = sandbox::run(&limits, move || template.apply(&mut template.env.clone(), &theirs))?;
        let rendered = done.value?;
        rendered.add_lost(done.held);
        Ok(rendered)
    }

    /// What one rendering of a request of that size may use.
    fn limits(size: usize) -> Limits {
        Limits {
            memory: MEMORY.saturating_add(size.saturating_mul(MEMORY_PER_BYTE)),
            seconds: SECONDS + SECONDS_PER_MB * size as f64 / MB as f64,
            nests: true,
        }
    }

    /// For several renderings in one job of the sandbox.
    pub fn renderer(self: &Arc<Self>) -> Renderer {
        Renderer { template: self.clone(), env: self.env.clone() }
    }

    fn new(source: &str) -> Result<Self, Failure> {
        if generation::holds_mark(source) {
            return Err(mark_message("the template").into());
        }
        let rewritten = rewrite(source).map_err(Failure::NotHad)?;
        let env = environment(rewritten.source).map_err(failure)?;
        Ok(ChatTemplate { env, source: source.to_string(), has_generation: rewritten.has_generation })
    }

    pub fn has_generation(&self) -> bool {
        self.has_generation
    }

    fn apply(&self, env: &mut Environment<'static>, request: &[u8]) -> Result<Rendered, Failure> {
        env.set_fuel(Some(FUEL.saturating_add(FUEL_PER_BYTE.saturating_mul(request.len() as u64))));
        let request = serde_json::from_slice(request).map_err(|e| Failure::Input(e.to_string()))?;
        let Value::Object(mut request) = request else {
            return Err("the request must be an object".to_string().into());
        };
        let Some(Value::Array(mut messages)) = request.remove("messages") else {
            return Err("messages must be a list".to_string().into());
        };
        if messages.is_empty() {
            return Err("the conversation has no message".to_string().into());
        }
        for (i, message) in messages.iter_mut().enumerate() {
            let Value::Object(fields) = message else {
                return Err(format!("message {i} must be an object").into());
            };
            tidy(fields);
        }
        let add_generation_prompt =
            request.get("add_generation_prompt").is_some_and(|v| v == &Value::Bool(true));
        let continued = match continued_field(&request) {
            Some(_) if add_generation_prompt => {
                return Err("continue_final_message and add_generation_prompt exclude each other"
                    .to_string()
                    .into())
            }
            Some(field) => Some(self.mark_final_message(&mut messages, &field)?),
            None => None,
        };

        let mut variables = Map::new();
        variables.insert("messages".into(), Value::Array(messages));
        for name in ["tools", "documents"] {
            variables.insert(name.into(), request.remove(name).unwrap_or(Value::Null));
        }
        variables.insert("add_generation_prompt".into(), Value::Bool(add_generation_prompt));
        if let Some(Value::Object(given)) = request.remove("variables") {
            variables.extend(given);
        }
        let mut rendered = self.render(env, Value::Object(variables))?;
        if let Some(text) = continued {
            cut_at_tag(&mut rendered, &text)?;
        }
        Ok(rendered)
    }

    fn render(&self, env: &Environment<'static>, variables: Value) -> Result<Rendered, Failure> {
        if self.has_generation && any_string(&variables, &generation::holds_mark) {
            return Err(mark_message("the conversation").into());
        }
        let template = env.get_template(TEMPLATE).map_err(failure)?;
        let marked = template.render(minijinja::value::Serde(variables)).map_err(failure)?;
        if !self.has_generation {
            return Ok(Rendered { text: marked, spans: Vec::new() });
        }
        let (text, spans) = generation::split(&marked);
        Ok(Rendered { text, spans })
    }

    /// Appends the tag to `field` of the last message, and to the other reasoning fields with the same text.
    /// Returns that text.
    fn mark_final_message(&self, messages: &mut [Value], field: &str) -> Result<String, String> {
        let last = messages.last_mut().and_then(Value::as_object_mut).ok_or("no message to continue")?;
        let content = last.get(field).cloned();
        let content = content.ok_or_else(|| format!("the final message has no \"{field}\" to continue"))?;
        let fields: Vec<&str> = if REASONING.contains(&field) {
            REASONING.into_iter().filter(|name| last.get(*name) == Some(&content)).collect()
        } else {
            vec![field]
        };
        if !fields.iter().any(|name| self.source.contains(name)) {
            return Err(format!(
                "continue_final_message is \"{field}\", which this chat template never reads"
            ));
        }
        match content {
            Value::String(text) => {
                for name in fields {
                    last.insert(name.to_string(), Value::String(format!("{text}{CONTINUE_TAG}")));
                }
                Ok(text)
            }
            Value::Array(_) => {
                let parts = last.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
                let part = parts.rev().find_map(|part| part.get_mut("text")).ok_or("no text to continue")?;
                let text = part.as_str().unwrap_or_default().to_string();
                *part = Value::String(format!("{text}{CONTINUE_TAG}"));
                Ok(text)
            }
            _ => Err("the final message is not text".to_string()),
        }
    }
}

/// Renders within a job of the sandbox; each rendering has the limits that it would have by itself.
pub struct Renderer {
    template: Arc<ChatTemplate>,
    env: Environment<'static>,
}

impl Renderer {
    pub fn render(&mut self, request: &[u8]) -> Result<Rendered, Failure> {
        check_lost()?;
        if !sandbox::next_part(&ChatTemplate::limits(request.len())) {
            return Err(Failure::Limit("needs a thread of its own".into()));
        }
        let before = sandbox::used();
        let rendered = self.template.apply(&mut self.env, request)?;
        rendered.add_lost(sandbox::used() - before);
        Ok(rendered)
    }
}

impl Rendered {
    /// Counts what its rendering holds besides the result.
    fn add_lost(&self, held: isize) {
        let kept = self.text.capacity() + self.spans.capacity() * size_of::<(usize, usize)>();
        LOST.fetch_add((held - kept as isize).max(0), Ordering::Relaxed);
    }
}

fn check_lost() -> Result<(), Failure> {
    if LOST.load(Ordering::Relaxed) > MOST_LOST {
        return Err(Failure::Limit("makes namespaces that hold themselves, which are never freed".into()));
    }
    Ok(())
}

/// What transformers does to every message: a null field is a missing one, and reasoning goes by the two names
/// that templates read.
fn tidy(message: &mut Map<String, Value>) {
    message.retain(|_, value| !value.is_null());
    let Some(reasoning) = REASONING.iter().find_map(|name| message.get(*name).cloned()) else { return };
    // {"thinking": r, **message, "reasoning_content": r}: the order shows when a template prints a message.
    let mut fields = Map::new();
    fields.insert("thinking".into(), reasoning.clone());
    fields.extend(std::mem::take(message));
    fields.insert("reasoning_content".into(), reasoning);
    *message = fields;
}

/// The field that `continue_final_message` names; true means "content".
fn continued_field(request: &Map<String, Value>) -> Option<String> {
    match request.get("continue_final_message") {
        Some(Value::Bool(true)) => Some("content".into()),
        Some(Value::String(field)) if !field.is_empty() => Some(field.clone()),
        _ => None,
    }
}

/// Ends the text where the tag stands; a template that trimmed the tag's blank would have trimmed `text` too.
fn cut_at_tag(rendered: &mut Rendered, text: &str) -> Result<(), String> {
    let tag = rendered.text.rfind(CONTINUE_TAG.trim_end());
    let tag = tag.filter(|_| rendered.text.contains(text.trim_matches(is_space)));
    let tag = tag.ok_or("the final message does not appear in the rendered conversation")?;
    let trimmed = !rendered.text[tag..].starts_with(CONTINUE_TAG);
    rendered.text.truncate(tag);
    if trimmed {
        rendered.text.truncate(rendered.text.trim_end_matches(is_space).len());
    }
    Ok(())
}

fn any_string(value: &Value, holds: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, holds)),
        Value::Object(fields) => fields.iter().any(|(name, item)| holds(name) || any_string(item, holds)),
        _ => false,
    }
}

fn mark_message(what: &str) -> String {
    format!("{what} holds U+10F8E0 or U+10F8E1, private-use characters that mark generation blocks here")
}

fn describe(error: &minijinja::Error) -> String {
    format!("{error:#}")
}

fn is_overflow(detail: &str) -> bool {
    let operation = detail.strip_prefix("unable to calculate ").unwrap_or_default();
    [" ** ", " + ", " - "].iter().any(|sign| operation.contains(sign)) && !operation.starts_with("0 ")
}

/// "the filter x": minijinja says "filter x is unknown".
fn unknown(error: &minijinja::Error, kind: &str) -> String {
    let name = error
        .detail()
        .unwrap_or_default()
        .trim_end_matches(" is unknown")
        .rsplit(' ')
        .next()
        .unwrap_or_default();
    format!("{kind} {name}")
}

fn failure(error: minijinja::Error) -> Failure {
    if error.kind() == ErrorKind::OutOfFuel {
        return Failure::Limit("runs more instructions than a conversation of this size can need".into());
    }
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(e) = cause {
        if let Some(raised) = e.downcast_ref::<Raised>() {
            return Failure::Raised(raised.0.clone());
        }
        if let Some(what) = e.downcast_ref::<NotHad>() {
            return Failure::NotHad(what.0.clone());
        }
        cause = e.source();
    }
    match error.kind() {
        ErrorKind::UnknownFilter => Failure::NotHad(unknown(&error, "the filter")),
        ErrorKind::UnknownTest => Failure::NotHad(unknown(&error, "the test")),
        ErrorKind::CannotUnpack if error.detail() == Some("value is not iterable") => Failure::NotHad(
            "several names for the letters of a text, or for a value that has no parts".into(),
        ),
        ErrorKind::InvalidOperation if error.detail().is_some_and(is_overflow) => {
            Failure::NotHad("integers of more than 128 bits".into())
        }
        ErrorKind::SyntaxError => match error.detail().and_then(|d| d.strip_prefix("unknown statement ")) {
            Some(tag) if !tag.starts_with("end") => Failure::NotHad(format!("the tag {tag}")),
            _ => Failure::Input(describe(&error)),
        },
        _ => Failure::Input(describe(&error)),
    }
}
