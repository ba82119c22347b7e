//! The tokenizer's entry points; see `include/text_ffi.h` for their contracts.

use crate::abi::{bytes, guard, put, text, Buffer, Failure, Ids};
use crate::byte_level::{ByteLevel, Placed};
use crate::sandbox::{self, Limits, MB};
use crate::tokenizer_form;
use std::ffi::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Once};
use tokenizers::Tokenizer;

/// A tokenizer, and its fast form where it has one.
pub struct Reader {
    tokenizer: Tokenizer,
    byte_level: Option<ByteLevel>,
}

/// What a handle points at: a call that was stopped still has its tokenizer.
pub type Handle = Arc<Reader>;

/// Entries of Oniguruma's backtrack stack, each about 40 bytes; it has no limit of its own.
const REGEX_STACK: std::ffi::c_uint = 8_000_000;
static REGEX: Once = Once::new();

/// What a call may use for `size` bytes of input; `per_byte` is some ten times what real tokenizers need.
fn limits(size: usize, memory: usize, per_byte: usize, seconds: f64) -> Limits {
    Limits {
        memory: memory.saturating_add(size.saturating_mul(per_byte)),
        seconds: seconds + seconds * size as f64 / MB as f64,
        nests: false,
    }
}

impl Reader {
    fn new(json: &[u8], form: &[u8]) -> Result<Self, Failure> {
        let tokenizer = tokenizer_form::read(json, form)?;
        let byte_level = ByteLevel::new(&tokenizer);
        Ok(Reader { tokenizer, byte_level })
    }

    /// What encoding a text of that size may use.
    pub fn encode_limits(size: usize) -> Limits {
        limits(size, 64 * MB, 500, 5.0)
    }

    /// Offsets count bytes of the text; without `want_offsets` they mean nothing.
    pub fn encode(&self, text: &str, add_special: bool, want_offsets: bool) -> Result<Vec<Placed>, Failure> {
        let fast = self.byte_level.as_ref();
        if let Some(tokens) = fast.and_then(|f| f.encode(&self.tokenizer, text, add_special, want_offsets)) {
            return Ok(tokens);
        }
        let encoding = match want_offsets {
            true => self.tokenizer.encode(text, add_special),
            false => self.tokenizer.encode_fast(text, add_special),
        };
        let encoding = encoding.map_err(|e| Failure::Input(e.to_string()))?;
        let places = encoding.get_ids().iter().zip(encoding.get_offsets());
        Ok(places.map(|(&id, &(begin, end))| Placed { id, begin, end }).collect())
    }
}

/// What reading a tokenizer.json of that size may use.
fn read_limits(size: usize) -> Limits {
    limits(size, 128 * MB, 150, 5.0)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_outline(
    json: *const c_char,
    size: usize,
    out: *mut Buffer,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let json = bytes(json, size).to_vec();
        put(out, sandbox::run(&read_limits(size), move || tokenizer_form::outline(&json))?.value?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_new(
    json: *const c_char,
    size: usize,
    form: *const c_char,
    form_size: usize,
    out: *mut *mut Handle,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        // SAFETY: sets a global number of Oniguruma, before the first regular expression is compiled.
        REGEX.call_once(|| unsafe {
            onig_sys::onig_set_match_stack_limit_size(REGEX_STACK);
        });
        let (json, form) = (bytes(json, size).to_vec(), bytes(form, form_size).to_vec());
        let read = move || Reader::new(&json, &form);
        let reader = sandbox::run(&read_limits(size + form_size), read)?.value?;
        *out = Box::into_raw(Box::new(Arc::new(reader)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_json(
    tokenizer: *const Handle,
    out: *mut Buffer,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let tokenizer = &(&*tokenizer).tokenizer;
        put(out, tokenizer.to_string(true).map_err(|e| Failure::Input(e.to_string()))?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_free(tokenizer: *mut Handle) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_encode(
    tokenizer: *const Handle,
    data: *const c_char,
    size: usize,
    add_special: c_int,
    want_offsets: c_int,
    out: *mut Ids,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let (input, add_special, want_offsets) =
            (text(data, size)?.to_string(), add_special != 0, want_offsets != 0);
        let reader = (*tokenizer).clone();
        let work = move || reader.encode(&input, add_special, want_offsets);
        let encoding = sandbox::run(&Reader::encode_limits(size), work)?.value?;
        *out = Ids::new(&encoding, want_offsets);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_decode(
    tokenizer: *const Handle,
    ids: *const u32,
    size: usize,
    skip_special: c_int,
    out: *mut Buffer,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let ids = if size == 0 { Vec::new() } else { std::slice::from_raw_parts(ids, size).to_vec() };
        let reader = (*tokenizer).clone();
        let work = move || {
            reader.tokenizer.decode(&ids, skip_special != 0).map_err(|e| Failure::Input(e.to_string()))
        };
        put(out, sandbox::run(&limits(size, 64 * MB, 2000, 5.0), work)?.value?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_token_to_id(
    tokenizer: *const Handle,
    token: *const c_char,
    size: usize,
) -> i64 {
    let tokenizer = &(&*tokenizer).tokenizer;
    let found = text(token, size)
        .map(|token| catch_unwind(AssertUnwindSafe(|| tokenizer.token_to_id(token))).unwrap_or_default());
    found.ok().flatten().map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_id_to_token(tokenizer: *const Handle, id: u32, out: *mut Buffer) -> c_int {
    let tokenizer = &(&*tokenizer).tokenizer;
    match catch_unwind(AssertUnwindSafe(|| tokenizer.id_to_token(id))).unwrap_or_default() {
        Some(token) => {
            put(out, token);
            0
        }
        None => -1,
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_vocab_size(tokenizer: *const Handle) -> usize {
    let tokenizer = &(&*tokenizer).tokenizer;
    catch_unwind(AssertUnwindSafe(|| tokenizer.get_vocab_size(true))).unwrap_or_default()
}
