//! The inside of `{% ... %}`, read and written again for minijinja.

use super::expression::Parser;
use super::lexer::{Kind, Token};

/// What to do with a statement.
pub enum Written {
    As(String),
    /// jinja2 does not read it, or knows it no otherwise than minijinja: it stays as it is.
    Same,
    /// The template uses this, which hone does not have.
    NotHad(String),
}

pub fn write(tokens: &[Token], escapes: bool) -> Written {
    let Some(first) = tokens.first().filter(|t| t.kind == Kind::Name) else { return Written::Same };
    let mut parser = Parser::new(&tokens[1..], escapes);
    let written = match first.text.as_str() {
        "if" | "elif" => parser.tuple(false).map(|test| format!("{} {test}", first.text)),
        "for" => for_loop(&mut parser),
        "set" => set(&mut parser),
        "filter" => filters(&mut parser).map(|all| format!("filter {all}")),
        "macro" => signature(&mut parser).map(|all| format!("macro {all}")),
        "call" => call(&mut parser),
        "with" => return with(&mut parser),
        "autoescape" => parser.expression().map(|value| format!("autoescape {value}")),
        "do" => return Written::NotHad("the tag do, which is an extension of jinja2".into()),
        "print" | "trans" | "pluralize" | "debug" => {
            return Written::NotHad(format!("the tag {}", first.text));
        }
        _ => return Written::Same,
    };
    match written {
        Some(text) if parser.done() => match names_of_call(&parser) {
            Some(name) => Written::NotHad(name),
            None => Written::As(text),
        },
        _ => Written::Same,
    }
}

/// An expression in `{{ ... }}`.
pub fn write_expression(tokens: &[Token], escapes: bool) -> Written {
    let mut parser = Parser::new(tokens, escapes);
    match parser.tuple(true) {
        Some(text) if parser.done() => match names_of_call(&parser) {
            Some(name) => Written::NotHad(name),
            None => Written::As(text),
        },
        _ => Written::Same,
    }
}

/// The rest of a macro's arguments, which minijinja does not collect.
fn names_of_call(parser: &Parser) -> Option<String> {
    let found = parser.names.iter().find(|name| *name == "varargs" || *name == "kwargs")?;
    Some(format!("{found}, the arguments that a macro does not name"))
}

fn target(parser: &mut Parser) -> Option<String> {
    let mut items = Vec::new();
    let mut commas = false;
    loop {
        if parser.skip("(") {
            let inner = target(parser)?;
            if !parser.skip(")") {
                return None;
            }
            items.push(format!("({inner})"));
        } else {
            let mut name = parser.any_name()?.to_string();
            while parser.skip(".") {
                name = format!("{name}.{}", parser.any_name()?);
            }
            items.push(name);
        }
        if !parser.skip(",") {
            break;
        }
        commas = true;
        if parser.is("=") || parser.is(")") || parser.is_name("in") {
            break;
        }
    }
    Some(items.join(", ") + if commas && items.len() == 1 { "," } else { "" })
}

fn for_loop(parser: &mut Parser) -> Option<String> {
    let names = target(parser)?;
    if !parser.skip_name("in") {
        return None;
    }
    let mut out = format!("for {names} in {}", parser.tuple(false)?);
    if parser.skip_name("if") {
        out = format!("{out} if {}", parser.expression()?);
    }
    if parser.skip_name("recursive") {
        out += " recursive";
    }
    Some(out)
}

fn set(parser: &mut Parser) -> Option<String> {
    let names = target(parser)?;
    if parser.skip("=") {
        return Some(format!("set {names} = {}", parser.tuple(true)?));
    }
    if parser.skip("|") {
        return Some(format!("set {names} | {}", filters(parser)?));
    }
    Some(format!("set {names}"))
}

fn filters(parser: &mut Parser) -> Option<String> {
    let mut out = parser.filter()?;
    while parser.skip("|") {
        out = format!("{out}|{}", parser.filter()?);
    }
    Some(out)
}

fn signature(parser: &mut Parser) -> Option<String> {
    let name = parser.any_name()?;
    Some(format!("{name}({})", parameters(parser)?))
}

fn parameters(parser: &mut Parser) -> Option<String> {
    if !parser.skip("(") {
        return None;
    }
    let mut out = Vec::new();
    while !parser.skip(")") {
        if !out.is_empty() && !parser.skip(",") {
            return None;
        }
        if parser.skip(")") {
            break;
        }
        let name = parser.any_name()?;
        out.push(match parser.skip("=") {
            true => format!("{name}={}", parser.expression()?),
            false => name.to_string(),
        });
    }
    Some(out.join(", "))
}

fn call(parser: &mut Parser) -> Option<String> {
    let parameters = match parser.is("(") {
        true => format!("({})", parameters(parser)?),
        false => String::new(),
    };
    Some(format!("call{parameters} {}", parser.expression()?))
}

/// jinja2 reads all values before it gives one of the names; minijinja goes from left to right.
fn with(parser: &mut Parser) -> Written {
    let mut all: Vec<(String, String, Vec<String>)> = Vec::new();
    while !parser.done() {
        if !all.is_empty() && !parser.skip(",") {
            return Written::Same;
        }
        parser.names.clear();
        let Some(name) = target(parser).filter(|_| parser.skip("=")) else { return Written::Same };
        let Some(value) = parser.expression() else { return Written::Same };
        all.push((name, value, std::mem::take(&mut parser.names)));
    }
    let crosses = |from: &[(String, String, Vec<String>)]| {
        (0..from.len()).any(|i| from[..i].iter().any(|(name, ..)| from[i].2.contains(name)))
    };
    if crosses(&all) {
        all.reverse();
    }
    if crosses(&all) {
        return Written::NotHad("a with whose values use one another's names".into());
    }
    let parts: Vec<String> = all.iter().map(|(name, value, _)| format!("{name} = {value}")).collect();
    Written::As(format!("with {}", parts.join(", ")).trim_end().to_string())
}
