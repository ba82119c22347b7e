//! minijinja set up as transformers sets up jinja2: trimmed blocks, loop controls, lenient undefined values,
//! no HTML escaping.

use crate::python::operators;
use crate::{filters, generation, globals, methods, pyjson};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error};

/// The name under which `environment` keeps the template; minijinja shows it in errors.
pub const TEMPLATE: &str = "chat_template";

/// An environment that holds `source`, which `rewrite` prepared.
pub fn environment(source: String) -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    env.set_debug(false); // else errors print every variable, whatever its size
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(pyjson::print);
    filters::add_all(&mut env);
    globals::add_all(&mut env);
    operators::add_all(&mut env);
    env.remove_global("debug"); // jinja2 has none; it prints everything, namespaces without end too
    env.add_filter(generation::FILTER, |body: String| {
        format!("{}{body}{}", generation::OPEN, generation::CLOSE)
    });
    env.add_template_owned(TEMPLATE, source)?;
    Ok(env)
}
