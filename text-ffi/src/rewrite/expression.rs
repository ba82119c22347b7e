//! jinja2's grammar of expressions, read and written again for minijinja. Operators that differ become calls of
//! `python::operators`; strings are written without escapes. The grammar is that of jinja2's parser.py.

use super::lexer::{quoted, Kind, Token};
use crate::methods;
use crate::python::operators::{ADD, ATTRIBUTE, CONCAT, MUL, PLUS, REM, SLICE};

/// Reads tokens; None wherever jinja2 would not read on.
pub struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// May texts be safe for HTML? Then `+` escapes.
    escapes: bool,
    /// Names that are read, in order.
    pub names: Vec<String>,
}

const DEEPEST: usize = 150; // minijinja's own limit
const KEYWORDS_AFTER_TEST: [&str; 4] = ["and", "or", "else", "is"];

impl<'a> Parser<'a> {
    pub fn new(tokens: &'a [Token], escapes: bool) -> Self {
        Parser { tokens, at: 0, depth: 0, escapes, names: Vec::new() }
    }

    pub fn done(&self) -> bool {
        self.at == self.tokens.len()
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub fn is(&self, operator: &str) -> bool {
        self.peek().is_some_and(|t| t.kind == Kind::Operator && t.text == operator)
    }

    pub fn is_name(&self, name: &str) -> bool {
        self.peek().is_some_and(|t| t.kind == Kind::Name && t.text == name)
    }

    pub fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    pub fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, operator: &str) -> Option<()> {
        self.skip(operator).then_some(())
    }

    pub fn any_name(&mut self) -> Option<&'a str> {
        let token = self.peek().filter(|t| t.kind == Kind::Name)?;
        self.at += 1;
        Some(&token.text)
    }

    /// An expression, or several with commas, which are a tuple. `conditional`: may it have an `if`?
    pub fn tuple(&mut self, conditional: bool) -> Option<String> {
        let mut items = Vec::new();
        let mut commas = false;
        loop {
            if self.done() || self.is(")") || self.is("]") || self.is_name("recursive") {
                break;
            }
            items.push(if conditional { self.expression()? } else { self.or()? });
            if !self.skip(",") {
                break;
            }
            commas = true;
        }
        if commas {
            let comma = if items.len() == 1 { "," } else { "" };
            return Some(format!("({}{comma})", items.join(", ")));
        }
        items.pop()
    }

    pub fn expression(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut out = self.or()?;
        while self.skip_name("if") {
            let test = self.or()?;
            out = format!("{out} if {test}");
            if self.skip_name("else") {
                out = format!("{out} else {}", self.expression()?);
            }
        }
        self.depth -= 1;
        Some(out)
    }

    fn or(&mut self) -> Option<String> {
        let mut out = self.and()?;
        while self.skip_name("or") {
            out = format!("{out} or {}", self.and()?);
        }
        Some(out)
    }

    fn and(&mut self) -> Option<String> {
        let mut out = self.not()?;
        while self.skip_name("and") {
            out = format!("{out} and {}", self.not()?);
        }
        Some(out)
    }

    fn not(&mut self) -> Option<String> {
        let mut count = 0;
        while self.skip_name("not") {
            count += 1;
        }
        Some("not ".repeat(count) + &self.compare()?)
    }

    fn compare(&mut self) -> Option<String> {
        let mut out = self.sum()?;
        loop {
            let operator = ["==", "!=", ">=", "<=", "<", ">"].into_iter().find(|one| self.skip(one));
            let operator = match operator {
                Some(operator) => operator,
                None if self.skip_name("in") => "in",
                None if self.is_name("not")
                    && self.tokens.get(self.at + 1).is_some_and(|t| t.text == "in") =>
                {
                    self.at += 2;
                    "not in"
                }
                None => return Some(out),
            };
            out = format!("{out} {operator} {}", self.sum()?);
        }
    }

    fn sum(&mut self) -> Option<String> {
        let mut out = self.concat()?;
        while let Some(operator) = ["+", "-"].into_iter().find(|one| self.skip(one)) {
            let right = self.concat()?;
            out = match operator {
                "+" if self.escapes => format!("{ADD}({out}, {right})"),
                _ => format!("{out} {operator} {right}"),
            };
        }
        Some(out)
    }

    fn concat(&mut self) -> Option<String> {
        let mut parts = vec![self.product()?];
        while self.skip("~") {
            parts.push(self.product()?);
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(format!("{CONCAT}({})", parts.join(", "))),
        }
    }

    fn product(&mut self) -> Option<String> {
        let mut out = self.power()?;
        while let Some(operator) = ["*", "/", "//", "%"].into_iter().find(|one| self.skip(one)) {
            let right = self.power()?;
            out = match operator {
                "%" => format!("{REM}({out}, {right})"),
                "*" => format!("{MUL}({out}, {right})"),
                _ => format!("{out} {operator} {right}"),
            };
        }
        Some(out)
    }

    fn power(&mut self) -> Option<String> {
        let mut out = self.unary(true)?;
        while self.skip("**") {
            out = format!("{out} ** {}", self.unary(true)?);
        }
        Some(out)
    }

    fn unary(&mut self, filters: bool) -> Option<String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let out = if self.skip("-") {
            format!("-{}", self.unary(false)?)
        } else if self.skip("+") {
            format!("{PLUS}({})", self.unary(false)?)
        } else {
            self.primary()?
        };
        let out = self.postfix(out)?;
        self.depth -= 1;
        if filters {
            self.filters_and_tests(out)
        } else {
            Some(out)
        }
    }

    fn primary(&mut self) -> Option<String> {
        let token = self.peek()?;
        self.at += 1;
        match (token.kind, token.text.as_str()) {
            (Kind::Name, name) => {
                self.names.push(name.to_string());
                Some(name.to_string())
            }
            (Kind::Number, number) => Some(number.to_string()),
            (Kind::Text, text) => {
                let mut text = text.to_string();
                while let Some(more) = self.peek().filter(|t| t.kind == Kind::Text) {
                    text += &more.text;
                    self.at += 1;
                }
                Some(quoted(&text))
            }
            (_, "(") => {
                if self.skip(")") {
                    return Some("()".into());
                }
                let inside = self.tuple(true)?;
                self.expect(")")?;
                // A tuple has its brackets.
                Some(if inside.starts_with('(') && balanced(&inside) {
                    inside
                } else {
                    format!("({inside})")
                })
            }
            (_, "[") => {
                let items = self.items("]", Self::expression)?;
                Some(format!("[{}]", items.join(", ")))
            }
            (_, "{") => {
                let items = self.items("}", |parser| {
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    Some(format!("{key}: {}", parser.expression()?))
                })?;
                Some(format!("{{{}}}", items.join(", ")))
            }
            _ => None,
        }
    }

    fn items(&mut self, end: &str, read: impl Fn(&mut Self) -> Option<String>) -> Option<Vec<String>> {
        let mut items = Vec::new();
        while !self.skip(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(end) {
                    break;
                }
            }
            items.push(read(self)?);
        }
        Some(items)
    }

    fn postfix(&mut self, mut out: String) -> Option<String> {
        loop {
            if self.skip(".") {
                let member = self.peek()?;
                self.at += 1;
                match member.kind {
                    Kind::Name if !self.is("(") && out != "loop" && methods::is_name(&member.text) => {
                        out = format!("{ATTRIBUTE}({out}, {})", quoted(&member.text));
                    }
                    Kind::Name => out = format!("{out}.{}", member.text),
                    Kind::Number => out = format!("{out}[{}]", member.text),
                    _ => return None,
                }
            } else if self.skip("[") {
                out = self.subscript(&out)?;
            } else if self.is("(") {
                out = format!("{out}({})", self.arguments()?);
            } else {
                return Some(out);
            }
        }
    }

    fn subscript(&mut self, of: &str) -> Option<String> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.skip(":") {
                colons += 1;
                if colons > 2 {
                    return None;
                }
            } else if self.skip("]") {
                break;
            } else {
                if parts[colons].is_some() {
                    return None;
                }
                parts[colons] = Some(if colons == 0 { self.tuple(true)? } else { self.expression()? });
            }
        }
        let [start, stop, step] = parts;
        if colons == 0 {
            return Some(format!("{of}[{}]", start?));
        }
        let none = || "none".to_string();
        Some(match step {
            Some(step) => {
                let (start, stop) = (start.unwrap_or_else(none), stop.unwrap_or_else(none));
                format!("{SLICE}({of}, {start}, {stop}, {step})")
            }
            None => format!("{of}[{}:{}]", start.unwrap_or_default(), stop.unwrap_or_default()),
        })
    }

    pub fn arguments(&mut self) -> Option<String> {
        self.expect("(")?;
        let items = self.items(")", |parser| {
            if parser.skip("**") {
                return Some(format!("**{}", parser.expression()?));
            }
            if parser.skip("*") {
                return Some(format!("*{}", parser.expression()?));
            }
            let named = parser.peek()?.kind == Kind::Name
                && parser
                    .tokens
                    .get(parser.at + 1)
                    .is_some_and(|t| t.kind == Kind::Operator && t.text == "=");
            if named {
                let name = parser.any_name()?;
                parser.at += 1;
                return Some(format!("{name}={}", parser.expression()?));
            }
            parser.expression()
        })?;
        Some(items.join(", "))
    }

    fn filters_and_tests(&mut self, mut out: String) -> Option<String> {
        loop {
            if self.skip("|") {
                out = format!("{out}|{}", self.filter()?);
            } else if self.skip_name("is") {
                out = self.test(&out)?;
            } else if self.is("(") {
                out = format!("{out}({})", self.arguments()?);
            } else {
                return Some(out);
            }
        }
    }

    fn dotted_name(&mut self) -> Option<String> {
        let mut name = self.any_name()?.to_string();
        while self.skip(".") {
            name = format!("{name}.{}", self.any_name()?);
        }
        Some(name)
    }

    /// A filter's name with its arguments.
    pub fn filter(&mut self) -> Option<String> {
        let name = self.dotted_name()?;
        Some(if self.is("(") { format!("{name}({})", self.arguments()?) } else { name })
    }

    fn test(&mut self, of: &str) -> Option<String> {
        let negated = if self.skip_name("not") { "not " } else { "" };
        let name = self.dotted_name()?;
        let arguments = if self.is("(") {
            format!("({})", self.arguments()?)
        } else {
            let begins = self.peek().is_some_and(|t| match t.kind {
                Kind::Name => !KEYWORDS_AFTER_TEST.contains(&t.text.as_str()),
                Kind::Operator => ["[", "{"].contains(&t.text.as_str()),
                _ => true,
            });
            if begins {
                let argument = self.primary()?;
                format!("({})", self.postfix(argument)?)
            } else {
                String::new()
            }
        };
        Some(format!("{of} is {negated}{name}{arguments}"))
    }
}

/// Does the first bracket close at the end only?
fn balanced(text: &str) -> bool {
    let mut depth = 0i32;
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 && at + c.len_utf8() < text.len() {
            return false;
        }
    }
    true
}
