//! The word patterns of byte-level tokenizers, matched by hand where the text is ASCII.
//!
//! Oniguruma takes some 250 ns a word, more than all else together. A match that looks at a byte outside ASCII is left
//! to Oniguruma, at the same place of the same text, so that the words are its words (`tests`, and the goldens of
//! tests/text).

use onig::{MatchParam, Regex, SearchOptions};

/// ByteLevel's own, as GPT-2 has it.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Llama 3's and Qwen's differ in how many digits a word has.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Gpt2,
    Digits(usize), // Llama 3's, with at most so many digits
}

pub struct WordPattern {
    form: Form,
    regex: Regex,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Letter,
    Digit,
    Line, // \r or \n
    Space,
    Other,
    Foreign, // a byte of a character outside ASCII
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'\r' | b'\n' => Class::Line,
            b' ' | b'\t' | 0x0b | 0x0c => Class::Space,
            0x80..=0xff => Class::Foreign,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[byte as usize]
}

/// Where the run of bytes of these classes that begins at `at` ends; None when a foreign byte ends it.
fn run(text: &[u8], mut at: usize, of: impl Fn(Class) -> bool) -> Option<usize> {
    while let Some(&byte) = text.get(at) {
        match class(byte) {
            Class::Foreign => return None,
            class if of(class) => at += 1,
            _ => break,
        }
    }
    Some(at)
}

fn is_blank(class: Class) -> bool {
    matches!(class, Class::Space | Class::Line)
}

/// `\s+(?!\S)|\s+`: a run of blanks leaves its last one to the word that follows.
fn blanks(text: &[u8], at: usize) -> Option<usize> {
    let end = run(text, at, is_blank)?;
    Some(if end == text.len() || end == at + 1 { end } else { end - 1 })
}

/// The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`, where the quote stands. Ok(None): none of them.
fn contraction(text: &[u8], at: usize, fold: bool) -> Result<Option<usize>, ()> {
    let letter = |i: usize| match text.get(i) {
        Some(byte) if fold && !byte.is_ascii() => Err(()), // U+017F is an s too
        Some(byte) if fold => Ok(byte.to_ascii_lowercase()),
        Some(byte) => Ok(*byte),
        None => Ok(0),
    };
    Ok(match letter(at + 1)? {
        b's' | b't' | b'm' | b'd' => Some(at + 2),
        b'r' | b'v' if letter(at + 2)? == b'e' => Some(at + 3),
        b'l' if letter(at + 2)? == b'l' => Some(at + 3),
        _ => None,
    })
}

fn gpt2_word(text: &[u8], at: usize) -> Option<usize> {
    let first = text[at];
    if first == b'\'' {
        if let Some(end) = contraction(text, at, false).ok()? {
            return Some(end);
        }
    }
    let begin = at + usize::from(first == b' ');
    match class(*text.get(begin).unwrap_or(&b' ')) {
        Class::Letter => run(text, begin, |c| c == Class::Letter),
        Class::Digit => run(text, begin, |c| c == Class::Digit),
        Class::Other => run(text, begin, |c| c == Class::Other),
        Class::Foreign => None,
        Class::Space | Class::Line => blanks(text, at),
    }
}

fn llama3_word(text: &[u8], at: usize, digits: usize) -> Option<usize> {
    let first = text[at];
    if first == b'\'' {
        if let Some(end) = contraction(text, at, true).ok()? {
            return Some(end);
        }
    }
    let kind = class(first);
    let next = text.get(at + 1).map(|byte| class(*byte));
    match kind {
        Class::Foreign => return None,
        Class::Letter => return run(text, at, |c| c == Class::Letter),
        Class::Digit => return run(&text[..text.len().min(at + digits)], at, |c| c == Class::Digit),
        Class::Space | Class::Other if next == Some(Class::Letter) => {
            return run(text, at + 1, |c| c == Class::Letter)
        }
        Class::Space | Class::Other if next == Some(Class::Foreign) => return None,
        _ => {}
    }
    let begin = at + usize::from(first == b' ');
    if text.get(begin).is_some_and(|byte| class(*byte) == Class::Other) {
        let end = run(text, begin, |c| c == Class::Other)?;
        return Some(end + text[end..].iter().take_while(|byte| class(**byte) == Class::Line).count());
    }
    // Blanks: up to the last end of a line in them, if there is one.
    let end = run(text, at, is_blank)?;
    match text[at..end].iter().rposition(|byte| class(*byte) == Class::Line) {
        Some(last) => Some(at + last + 1),
        None => blanks(text, at),
    }
}

impl WordPattern {
    pub fn gpt2() -> Option<Self> {
        Some(WordPattern { form: Form::Gpt2, regex: Regex::new(GPT2).ok()? })
    }

    /// None for a pattern that is not known here.
    pub fn read(pattern: &str) -> Option<Self> {
        let form = match pattern {
            GPT2 => Form::Gpt2,
            LLAMA3 => Form::Digits(3),
            QWEN2 => Form::Digits(1),
            _ => return None,
        };
        Some(WordPattern { form, regex: Regex::new(pattern).ok()? })
    }

    /// Where the word that begins at `at` ends. None: Oniguruma finds no word there, or gives up.
    pub fn word_end(&self, text: &str, at: usize) -> Option<usize> {
        self.by_hand(text, at).or_else(|| self.by_regex(text, at))
    }

    fn by_hand(&self, text: &str, at: usize) -> Option<usize> {
        match self.form {
            Form::Gpt2 => gpt2_word(text.as_bytes(), at),
            Form::Digits(most) => llama3_word(text.as_bytes(), at, most),
        }
    }

    fn by_regex(&self, text: &str, at: usize) -> Option<usize> {
        let none = SearchOptions::SEARCH_OPTION_NONE;
        let found = self.regex.match_with_param(text, at, none, None, MatchParam::default());
        found.ok()?.filter(|size| *size > 0).map(|size| at + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every text of five characters out of those that the patterns tell apart, and longer ones at random.
    #[test]
    fn words_are_onigurumas() {
        let letters: Vec<char> = "aS'rel1 \t\n\r.\u{e9}\u{a0}\u{17f}\u{663}\u{4e2d}".chars().collect();
        let mut texts = Vec::new();
        for number in 0..letters.len().pow(4) {
            let mut rest = number;
            texts.push((0..4).map(|_| (letters[rest % letters.len()], rest /= letters.len()).0).collect());
        }
        let mut state = 1u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % most
        };
        for _ in 0..20_000 {
            let size = 1 + next(12);
            texts.push((0..size).map(|_| letters[next(letters.len())]).collect::<String>());
        }
        for pattern in [GPT2, LLAMA3, QWEN2] {
            let words = WordPattern::read(pattern).unwrap();
            let mut by_hand = 0;
            for text in &texts {
                let mut at = 0;
                for (begin, end) in words.regex.find_iter(text) {
                    assert_eq!((at, words.word_end(text, at)), (begin, Some(end)), "{pattern} {text:?}");
                    by_hand += usize::from(words.by_hand(text, at).is_some());
                    at = end;
                }
                assert_eq!(at, text.len());
            }
            assert!(by_hand > texts.len() / 2);
        }
    }
}
