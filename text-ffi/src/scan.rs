//! A look at a template's source before it is parsed. minijinja's parser bounds brackets and blocks at 150 levels,
//! but recurses once for each sign of `- - - 1`, each `elif` and, when it compiles, each link of `a + b + c`.

/// A source may have this many bytes; the longest of the templates that are in use have 20 to 40 KB.
pub const LONGEST_SOURCE: usize = 256 << 10;
/// Operators, members and filters that apply to one another in an expression, and branches of `elif`.
const LONGEST_CHAIN: usize = 1000;

/// An error for what would nest too deeply, or is too long, to be parsed.
pub fn check(source: &str) -> Result<(), String> {
    if source.len() > LONGEST_SOURCE {
        return Err(format!("the source has {} bytes; at most {LONGEST_SOURCE} are read", source.len()));
    }
    let mut elifs = 0;
    let mut at = 0;
    while let Some(found) = source[at..].find('{') {
        at += found + 1;
        at = match source.as_bytes().get(at) {
            Some(b'#') => source[at..].find("#}").map_or(source.len(), |end| at + end + 2),
            Some(b'{' | b'%') => {
                let word = first_word(&source[at + 1..]);
                elifs += usize::from(word == "elif");
                let end = tag(source, at + 1)?;
                if word == "raw" {
                    end_of_raw(source, end)
                } else {
                    end
                }
            }
            _ => at,
        };
        if elifs > LONGEST_CHAIN {
            return Err(format!("the source has more than {LONGEST_CHAIN} branches of elif"));
        }
    }
    Ok(())
}

fn first_word(tag: &str) -> &str {
    let tag = tag.trim_start_matches(['-', '+']).trim_start();
    &tag[..tag.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tag.len())]
}

/// Where the text of a raw block ends.
fn end_of_raw(source: &str, mut at: usize) -> usize {
    while let Some(found) = source[at..].find("{%") {
        at += found + 2;
        if first_word(&source[at..]) == "endraw" {
            return at;
        }
    }
    source.len()
}

/// Reads the tag whose inside begins at `at`; returns where it ends.
fn tag(source: &str, mut at: usize) -> Result<usize, String> {
    let bytes = source.as_bytes();
    let mut chains = vec![0usize]; // of each open bracket
    let mut total = 0; // their sum
    while at < bytes.len() {
        let ends = matches!(bytes[at], b'}' | b'%') && bytes.get(at + 1) == Some(&b'}');
        if ends && chains.len() == 1 {
            return Ok(at + 2);
        }
        let mut links = 0;
        match bytes[at] {
            quote @ (b'\'' | b'"') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => {
                total += 1;
                *chains.last_mut().unwrap_or(&mut 0) += 1;
                chains.push(0);
            }
            b')' | b']' | b'}' if chains.len() > 1 => total -= chains.pop().unwrap_or(0),
            b',' | b':' => total -= std::mem::take(chains.last_mut().unwrap_or(&mut 0)),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'|' | b'.' | b'<' | b'>' | b'=' | b'!' => links = 1,
            b if b.is_ascii_alphabetic() || b == b'_' => {
                let word = first_word(&source[at..]);
                links = usize::from(["and", "or", "not", "if", "else", "is", "in"].contains(&word));
                at += word.len() - 1;
            }
            b if b.is_ascii_digit() => {
                // "1.5" is a number, not a member.
                let rest = &bytes[at..];
                at += rest.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count() - 1;
            }
            _ => {}
        }
        total += links;
        *chains.last_mut().unwrap_or(&mut 0) += links;
        if total > LONGEST_CHAIN {
            return Err(format!("an expression applies more than {LONGEST_CHAIN} operators to one another"));
        }
        at += 1;
    }
    Ok(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted_in_expressions_only() {
        let long = "- ".repeat(20_000);
        let refused = [
            format!("{{{{ {long}1 }}}}"),
            format!("{{% set x = [{}0] %}}", "[1] + ".repeat(2000)),
            format!("{{{{ ({}1 }}}}", "(1 + ".repeat(600)),
            format!("{{{{ x{} }}}}", "|upper".repeat(2000)),
            format!("{{{{ x{} }}}}", "[0]".repeat(2000)),
            format!("{{{{ {} x }}}}", "not ".repeat(2000)),
            format!("{{# {{{{ #}}{{{{ {long}1 }}}}"),
            format!("{{% raw %}}{{#{{% endraw %}}{{{{ {long}1 }}}}"),
            format!("{{{{ '\\'' ~ {long}1 }}}}"),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(2000)),
            " ".repeat(LONGEST_SOURCE + 1),
        ];
        for source in refused {
            assert!(check(&source).is_err(), "{}", &source[..60]);
        }
        let allowed = [
            long.clone(),
            format!("{{# {long} #}}"),
            format!("{{% raw %}}{long}{{{{ 1 }}}}{{% endraw %}}"),
            format!("{{{{ '{long}' }}}}"),
            format!("{{% set x = [{}] %}}", "{'a': -1, 'b': [1.5]}, ".repeat(2000)),
            "{{ a + b }}".repeat(2000),
            "{{ '\u{e9}' }}\u{e9}{".to_string(),
            "{{ '\\".to_string(),
        ];
        for source in allowed {
            assert_eq!(check(&source), Ok(()), "{}", &source[..source.len().min(60)]);
        }
    }
}
