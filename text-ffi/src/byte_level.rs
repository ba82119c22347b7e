//! Byte-level BPE without the crate's bookkeeping: the same tokens and offsets as `tokenizers`' encode, some ten times
//! as fast.
//!
//! The crate keeps for each byte of a text where it came from, through normalizing, splitting and mapping bytes to
//! characters. Here a text is cut at the added tokens, then into words (`word_split`), and each word's tokens come from
//! a cache, or from the crate's own BPE. Tokenizers of another form, and the few texts that this does not reach, go
//! through the crate.

use crate::word_split::WordPattern;
use ahash::AHashMap;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, Model, NormalizedString, Normalizer, Tokenizer};

/// Words that a cache holds before it is emptied, and the bytes of the longest.
const MOST_WORDS: usize = 1 << 16;
const LONGEST_WORD: usize = 64;
/// Caches that are kept: as many as have been in use at the same time, up to this.
const MOST_CACHES: usize = 64;

/// A token and its bytes [begin, end) of the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    pub id: u32,
    pub begin: usize,
    pub end: usize,
}

pub struct ByteLevel {
    before: AddedTokens, // found in the text as it is,
    after: AddedTokens,  // and in what the normalizer made of the rest
    composes: bool,      // the normalizer is NFC
    single_digits: bool, // digits are words of their own
    words: WordPattern,
    prefix: Vec<u32>, // what the post-processor adds
    suffix: Vec<u32>,
    exact_offsets: bool, // the post-processor leaves them
    caches: Mutex<Vec<WordCache>>,
}

impl ByteLevel {
    /// None for tokenizers of another form.
    pub fn new(tokenizer: &Tokenizer) -> Option<Self> {
        let ModelWrapper::BPE(bpe) = tokenizer.get_model() else { return None };
        let plain = |affix: &Option<String>| affix.as_ref().is_none_or(String::is_empty);
        if bpe.dropout.is_some_and(|share| share > 0.0)
            || !plain(&bpe.continuing_subword_prefix)
            || !plain(&bpe.end_of_word_suffix)
            || bpe.byte_fallback
            || tokenizer.get_truncation().is_some()
            || tokenizer.get_padding().is_some()
            || tokenizer.get_encode_special_tokens()
        {
            return None;
        }
        let composes = match tokenizer.get_normalizer().map(serde_json::to_value) {
            None => false,
            Some(Ok(normalizer)) if normalizer["type"] == "NFC" => true,
            _ => return None,
        };
        let (single_digits, words) = splitting(&serde_json::to_value(tokenizer.get_pre_tokenizer()?).ok()?)?;
        let added = tokenizer.get_added_tokens_decoder();
        let post = tokenizer.get_post_processor().map(serde_json::to_string).transpose().ok()?;
        let mut out = ByteLevel {
            before: AddedTokens::new(added.iter().filter(|(_, token)| !token.normalized))?,
            after: AddedTokens::new(added.iter().filter(|(_, token)| token.normalized))?,
            composes,
            single_digits,
            words,
            prefix: Vec::new(),
            suffix: Vec::new(),
            exact_offsets: !post.unwrap_or_default().contains("\"trim_offsets\":true"),
            caches: Mutex::new(Vec::with_capacity(MOST_CACHES)),
        };
        if out.composes && added.values().any(|token| token.normalized && !token.content.is_ascii()) {
            return None;
        }
        out.find_affixes(tokenizer)?;
        out.agrees(tokenizer).then_some(out)
    }

    /// The tokens of `text`; None where only the crate can tell. `with_offsets`: each token's bytes are the crate's.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        add_special: bool,
        with_offsets: bool,
    ) -> Option<Vec<Placed>> {
        if with_offsets && !self.exact_offsets {
            return None;
        }
        let mut cache = self.take_cache();
        let mut out = Vec::with_capacity(text.len() / 3 + 8);
        let unplaced =
            |ids: &[u32]| ids.iter().map(|id| Placed { id: *id, begin: 0, end: 0 }).collect::<Vec<_>>();
        if add_special {
            out.extend(unplaced(&self.prefix));
        }
        let mut pass = Pass { level: self, tokenizer, cache: &mut cache, with_offsets, out: &mut out };
        let done = pass.text(text);
        self.give_back(cache);
        done?;
        if add_special {
            out.extend(unplaced(&self.suffix));
        }
        Some(out)
    }

    // A job may be stopped in any allocation: there must be none while the lock is held.
    fn take_cache(&self) -> WordCache {
        let kept = self.caches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_default()
    }

    fn give_back(&self, cache: WordCache) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if caches.len() < MOST_CACHES {
            caches.push(cache);
        }
    }

    /// What the post-processor puts before and after a text, seen at one.
    fn find_affixes(&mut self, tokenizer: &Tokenizer) -> Option<()> {
        let bare = tokenizer.encode_fast("a", false).ok()?;
        let whole = tokenizer.encode_fast("a", true).ok()?;
        let (bare, whole) = (bare.get_ids(), whole.get_ids());
        if bare.is_empty() {
            return None;
        }
        let mut places =
            whole.windows(bare.len()).enumerate().filter(|(_, ids)| *ids == bare).map(|(at, _)| at);
        let at = places.next().filter(|_| places.next().is_none())?;
        self.prefix = whole[..at].to_vec();
        self.suffix = whole[at + bare.len()..].to_vec();
        Some(())
    }

    /// Does it give the crate's tokens for a few texts? What a tokenizer.json can say is more than is read above.
    fn agrees(&self, tokenizer: &Tokenizer) -> bool {
        let texts = [
            "",
            "a",
            " The  quick\n\n brown fox's 1234 d\u{e9}j\u{e0} vu\u{4e2d}\u{6587} \u{1f600}\t!",
            "'LL x\r\n  ",
        ];
        texts.iter().all(|text| {
            [false, true].into_iter().all(|special| {
                let Ok(theirs) = tokenizer.encode(*text, special) else { return false };
                let Some(ours) = self.encode(tokenizer, text, special, false) else { return false };
                let offsets = self.encode(tokenizer, text, special, true).is_none_or(|tokens| {
                    tokens
                        .iter()
                        .map(|token| (token.begin, token.end))
                        .eq(theirs.get_offsets().iter().copied())
                });
                offsets && ours.iter().map(|token| token.id).eq(theirs.get_ids().iter().copied())
            })
        })
    }
}

/// Whether digits are words of their own, and the pattern of words, of pre-tokenizers that end in ByteLevel.
fn splitting(pre_tokenizer: &Value) -> Option<(bool, WordPattern)> {
    let one = [pre_tokenizer.clone()];
    let steps = match pre_tokenizer["type"].as_str()? {
        "Sequence" => pre_tokenizer["pretokenizers"].as_array()?.as_slice(),
        _ => one.as_slice(),
    };
    let (last, first) = steps.split_last()?;
    if last["type"] != "ByteLevel" || last["add_prefix_space"] != false {
        return None;
    }
    let own_words = last["use_regex"] == true;
    match first {
        [] if own_words => Some((false, WordPattern::gpt2()?)),
        [digits] if own_words && digits["type"] == "Digits" && digits["individual_digits"] == true => {
            Some((true, WordPattern::gpt2()?))
        }
        [split] if !own_words && split["type"] == "Split" => {
            let isolated = split["behavior"] == "Isolated" && split["invert"] == false;
            Some((false, WordPattern::read(split["pattern"]["Regex"].as_str().filter(|_| isolated)?)?))
        }
        _ => None,
    }
}

// ---- added tokens -----------------------------------------------------------------------------------------------

/// Tokens that are looked for in a text, the longest of those that begin first.
#[derive(Default)]
struct AddedTokens {
    by_first: Vec<Vec<(Vec<u8>, u32)>>, // of each first byte, longest first; empty: no tokens
}

impl AddedTokens {
    /// None when one of them takes blanks beside it, or must be a word.
    fn new<'a>(tokens: impl Iterator<Item = (&'a u32, &'a AddedToken)>) -> Option<Self> {
        let mut by_first = Vec::new();
        for (id, token) in tokens {
            let content = token.content.as_bytes();
            if token.single_word || token.lstrip || token.rstrip || content.is_empty() {
                return None;
            }
            by_first.resize(256, Vec::new());
            by_first[content[0] as usize].push((content.to_vec(), *id));
        }
        for tokens in &mut by_first {
            tokens.sort_by_key(|(content, _): &(Vec<u8>, u32)| std::cmp::Reverse(content.len()));
        }
        Some(AddedTokens { by_first })
    }

    /// The first at or after `at`: where it begins, where it ends, its id.
    fn find(&self, text: &[u8], at: usize) -> Option<(usize, usize, u32)> {
        if self.by_first.is_empty() {
            return None;
        }
        (at..text.len()).find_map(|begin| {
            let tokens = &self.by_first[text[begin] as usize];
            let found = tokens.iter().find(|(content, _)| text[begin..].starts_with(content))?;
            Some((begin, begin + found.0.len(), found.1))
        })
    }
}

/// Calls `piece` for what lies between added tokens, in order, and puts those tokens into `out`.
fn cut<'a>(
    tokens: &AddedTokens,
    text: &'a str,
    mut each: impl FnMut(usize, Result<&'a str, Placed>) -> Option<()>,
) -> Option<()> {
    let mut at = 0;
    while let Some((begin, end, id)) = tokens.find(text.as_bytes(), at) {
        if at < begin {
            each(at, Ok(&text[at..begin]))?;
        }
        each(begin, Err(Placed { id, begin, end }))?;
        at = end;
    }
    if at < text.len() {
        each(at, Ok(&text[at..]))?;
    }
    Some(())
}

// ---- one text ---------------------------------------------------------------------------------------------------

/// The tokens of words, with their bytes counted from the word's beginning.
#[derive(Default)]
struct WordCache {
    places: AHashMap<Box<[u8]>, (u32, u32)>, // [begin, end) of `tokens`
    tokens: Vec<Placed>,
}

struct Pass<'a> {
    level: &'a ByteLevel,
    tokenizer: &'a Tokenizer,
    cache: &'a mut WordCache,
    with_offsets: bool,
    out: &'a mut Vec<Placed>,
}

impl Pass<'_> {
    fn text(&mut self, text: &str) -> Option<()> {
        let level = self.level;
        cut(&level.before, text, |at, piece| match piece {
            Ok(piece) => self.piece(piece, at),
            Err(token) => {
                self.out.push(token);
                Some(())
            }
        })
    }

    /// What lies between the tokens that are found in the text as it is.
    fn piece(&mut self, piece: &str, at: usize) -> Option<()> {
        let composed = if self.level.composes && !is_composed(piece) {
            let mut normalized = NormalizedString::from(piece);
            self.tokenizer.get_normalizer()?.normalize(&mut normalized).ok()?;
            Some(normalized.get().to_string()).filter(|text| text != piece)
        } else {
            None
        };
        if composed.is_some() && self.with_offsets {
            return None;
        }
        let level = self.level;
        cut(&level.after, composed.as_deref().unwrap_or(piece), |begin, piece| match piece {
            Ok(piece) => self.digits(piece, at + begin),
            Err(token) => {
                self.out.push(Placed { id: token.id, begin: at + token.begin, end: at + token.end });
                Some(())
            }
        })
    }

    fn digits(&mut self, piece: &str, at: usize) -> Option<()> {
        if !self.level.single_digits {
            return self.words(piece, at);
        }
        let mut begin = 0;
        for (digit, character) in piece.char_indices().filter(|(_, character)| character.is_numeric()) {
            let end = digit + character.len_utf8();
            self.words(&piece[begin..digit], at + begin)?;
            self.words(&piece[digit..end], at + digit)?;
            begin = end;
        }
        self.words(&piece[begin..], at + begin)
    }

    fn words(&mut self, piece: &str, at: usize) -> Option<()> {
        let mut begin = 0;
        while begin < piece.len() {
            let end = self.level.words.word_end(piece, begin)?;
            self.word(&piece[begin..end], at + begin)?;
            begin = end;
        }
        Some(())
    }

    fn word(&mut self, word: &str, at: usize) -> Option<()> {
        let placed = |token: &Placed| Placed { id: token.id, begin: at + token.begin, end: at + token.end };
        if let Some(&(begin, end)) = self.cache.places.get(word.as_bytes()) {
            self.out.extend(self.cache.tokens[begin as usize..end as usize].iter().map(placed));
            return Some(());
        }
        let tokens = tokens_of(self.tokenizer, word)?;
        self.out.extend(tokens.iter().map(placed));
        if word.len() > LONGEST_WORD {
            return Some(());
        }
        if self.cache.places.len() >= MOST_WORDS {
            *self.cache = WordCache::default();
        }
        let begin = self.cache.tokens.len();
        self.cache.tokens.extend(tokens);
        let places = (begin as u32, self.cache.tokens.len() as u32);
        self.cache.places.insert(word.as_bytes().into(), places);
        Some(())
    }
}

/// A word's tokens by the crate's BPE. None: the model dropped a byte, which shifts its offsets, or failed.
fn tokens_of(tokenizer: &Tokenizer, word: &str) -> Option<Vec<Placed>> {
    let mut mapped = String::with_capacity(word.len() * 2);
    let mut byte_at = vec![0; word.len() * 2 + 1]; // of each byte of `mapped`: the byte of `word` that it stands for
    for (at, byte) in word.bytes().enumerate() {
        byte_at[mapped.len()] = at;
        mapped.push(character(byte));
    }
    byte_at[mapped.len()] = word.len();
    let tokens = tokenizer.get_model().tokenize(&mapped).ok()?;
    let mut out = Vec::with_capacity(tokens.len());
    let mut next = 0;
    for token in tokens {
        let (begin, end) = token.offsets;
        if begin != next || end > mapped.len() {
            return None;
        }
        next = end;
        // A part of a character has the whole character's place.
        let (mut first, mut last) = (byte_at[begin], byte_at[end]);
        while !word.is_char_boundary(first) {
            first -= 1;
        }
        while !word.is_char_boundary(last) {
            last += 1;
        }
        out.push(Placed { id: token.id, begin: first, end: last });
    }
    (next == mapped.len()).then_some(out)
}

/// The character that stands for a byte in byte-level vocabularies (GPT-2's bytes_to_unicode).
fn character(byte: u8) -> char {
    let code = u32::from(byte);
    let shown = match byte {
        0..=0x20 => 0x100 + code,
        0x7f..=0xa0 => 0x121 + code - 0x7f,
        0xad => 0x143,
        _ => code,
    };
    char::from_u32(shown).unwrap_or_default()
}

/// Is the text in form NFC for certain? Characters that are, and that compose with none of these that may follow.
fn is_composed(text: &str) -> bool {
    text.is_ascii() || text.chars().all(|c| {
        matches!(u32::from(c), 0..=0x2ff | 0x400..=0x482 | 0x2010..=0x2027 | 0x2030..=0x205e | 0x3001..=0x3029
                | 0x3041..=0x3096 | 0x30a1..=0x30fa | 0x30fc | 0x4e00..=0x9fff | 0xac00..=0xd7a3
                | 0xff01..=0xff9d | 0x1f300..=0x1f64f)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The fixture's tokenizer, and real ones where they have been fetched.
    fn tokenizers() -> Vec<(String, Tokenizer)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let fetched = ["qwen2_5", "qwen3", "llama3"].map(|name| format!("third_party/tokenizers/{name}"));
        let folders = std::iter::once("tests/fixtures/text/tiny".to_string()).chain(fetched);
        let read = |folder: String| {
            let tokenizer = Tokenizer::from_file(root.join(&folder).join("tokenizer.json")).ok()?;
            Some((folder, tokenizer))
        };
        folders.filter_map(read).collect()
    }

    fn texts() -> Vec<String> {
        let words = [
            "the",
            " fox",
            "'s",
            "'LL",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\t",
            "12",
            "345678",
            ".",
            "!?",
            " (",
            "\u{e9}",
            "e\u{301}",
            "\u{a0}",
            "\u{3000}",
            "\u{4e2d}\u{6587}",
            "\u{663}",
            "\u{bd}",
            "\u{1f600}",
            "\u{17f}",
            "\u{212b}",
            "<|im_start|>",
            "<|im_end|>",
            "<|eot_id|>",
            "<|bos|>",
            "<|",
            "\u{0}",
            "\u{ad}",
            "\u{7f}",
            "\u{ac01}\u{11a8}",
            "A",
            "_x",
        ];
        let mut state = 7u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % most
        };
        (0..4000).map(|_| (0..next(14)).map(|_| words[next(words.len())]).collect()).collect()
    }

    #[test]
    fn tokens_and_offsets_are_the_crates() {
        for (name, tokenizer) in tokenizers() {
            let fast = ByteLevel::new(&tokenizer).expect("a form that is known");
            let mut placed = 0;
            for text in texts() {
                for special in [false, true] {
                    let theirs = tokenizer.encode(text.as_str(), special).unwrap();
                    let ids = fast.encode(&tokenizer, &text, special, false).unwrap();
                    assert!(ids.iter().map(|t| t.id).eq(theirs.get_ids().iter().copied()), "{name} {text:?}");
                    if let Some(tokens) = fast.encode(&tokenizer, &text, special, true) {
                        let places: Vec<_> = tokens.iter().map(|t| (t.begin, t.end)).collect();
                        assert_eq!(places, theirs.get_offsets(), "{name} {text:?}");
                        placed += 1;
                    }
                }
            }
            assert!(placed > 4000, "{name}: {placed}");
        }
    }

    #[test]
    fn other_forms_are_left_to_the_crate() {
        let (_, tokenizer) = tokenizers().swap_remove(0);
        let with = |path: &str, value: Value| {
            let mut json: Value = serde_json::from_str(&tokenizer.to_string(false).unwrap()).unwrap();
            *json.pointer_mut(path).unwrap() = value;
            ByteLevel::new(&Tokenizer::from_bytes(json.to_string()).unwrap()).is_some()
        };
        assert!(with("/pre_tokenizer/use_regex", true.into()));
        assert!(!with("/pre_tokenizer/add_prefix_space", true.into()));
        assert!(!with("/normalizer", serde_json::json!({"type": "Lowercase"})));
        assert!(with("/normalizer", serde_json::json!({"type": "NFC"})));
        assert!(!with("/added_tokens/0/lstrip", true.into()));
        assert!(with("/added_tokens/0/normalized", true.into()));
        assert!(!with("/pre_tokenizer", serde_json::json!({"type": "Whitespace"})));
    }

    #[test]
    fn inert_characters_are_composed() {
        let (_, mut tokenizer) = tokenizers().swap_remove(0);
        assert!(tokenizer.with_normalizer(Some(tokenizers::normalizers::NFC)).is_ok());
        let composed = |text: &str| {
            let mut normalized = NormalizedString::from(text);
            tokenizer.get_normalizer().unwrap().normalize(&mut normalized).unwrap();
            normalized.get() == text
        };
        let inert: Vec<char> =
            ('\u{0}'..=char::MAX).filter(|c| is_composed(c.encode_utf8(&mut [0; 4]))).collect();
        assert!(inert.len() > 30_000);
        // Those that compose with what stands before them do so with one of these.
        for before in ['a', 'e', '\u{ac00}', '\u{3042}', '\u{30ab}', '\u{418}', '<', '='] {
            for part in inert.chunks(1000) {
                let text: String = part.iter().flat_map(|c| [before, *c]).collect();
                assert!(composed(&text), "{text}");
            }
        }
    }
}
