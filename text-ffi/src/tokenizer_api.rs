//! The tokenizer's entry points; see `include/text_ffi.h` for their contracts.

use crate::abi::{bytes, guard, put, text, Buffer, Ids};
use std::ffi::{c_char, c_int};
use tokenizers::Tokenizer;

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_new(
    json: *const c_char,
    size: usize,
    out: *mut *mut Tokenizer,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let tokenizer = Tokenizer::from_bytes(bytes(json, size)).map_err(|e| e.to_string())?;
        *out = Box::into_raw(Box::new(tokenizer));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_encode(
    tokenizer: *const Tokenizer,
    data: *const c_char,
    size: usize,
    add_special: c_int,
    want_offsets: c_int,
    out: *mut Ids,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let (input, add_special, want_offsets) = (text(data, size)?, add_special != 0, want_offsets != 0);
        // encode() counts offsets in bytes of the input; encode_fast() leaves them out.
        let encoding = if want_offsets {
            (*tokenizer).encode(input, add_special)
        } else {
            (*tokenizer).encode_fast(input, add_special)
        };
        *out = Ids::new(&encoding.map_err(|e| e.to_string())?, want_offsets);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    size: usize,
    skip_special: c_int,
    out: *mut Buffer,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let ids = if size == 0 { &[][..] } else { std::slice::from_raw_parts(ids, size) };
        put(out, (*tokenizer).decode(ids, skip_special != 0).map_err(|e| e.to_string())?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_token_to_id(
    tokenizer: *const Tokenizer,
    token: *const c_char,
    size: usize,
) -> i64 {
    text(token, size).ok().and_then(|token| (*tokenizer).token_to_id(token)).map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_id_to_token(
    tokenizer: *const Tokenizer,
    id: u32,
    out: *mut Buffer,
) -> c_int {
    match (*tokenizer).id_to_token(id) {
        Some(token) => {
            put(out, token);
            0
        }
        None => -1,
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_vocab_size(tokenizer: *const Tokenizer) -> usize {
    (*tokenizer).get_vocab_size(true)
}
