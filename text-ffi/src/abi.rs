//! Memory that crosses the C ABI, and the guard that turns errors and panics into a status and a message.

use crate::byte_level::Placed;
use crate::sandbox::{panic_text, Stopped};
use std::ffi::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Why a call failed; the variants are the negative statuses of the header.
pub enum Failure {
    /// The input is at fault.
    Input(String),
    /// The template called `raise_exception` with this message.
    Raised(String),
    /// The input met a limit: a sentence without its subject, "needs more than ...".
    Limit(String),
    /// The library that reads the input panicked with this message.
    Panic(String),
    /// The template uses something of jinja2 that is not here: "the filter random".
    NotHad(String),
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Panic(message) => Failure::Panic(message),
            met => Failure::Limit(met.words()),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Input(message)
    }
}

const ERROR: c_int = -1;
const PANIC: c_int = -2;
const RAISED: c_int = -3;
const LIMIT: c_int = -4;
const NOT_HAD: c_int = -5;

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    ids: *mut u32,
    offsets: *mut u32,
    size: usize,
}

#[repr(C)]
pub struct Spans {
    pairs: *mut u64,
    size: usize,
}

/// The tokens of many texts, one after the other; see the header.
#[repr(C)]
pub struct Batch {
    ids: *mut u32,
    marks: *mut u8,
    ends: *mut u64,
    size: usize,
    count: usize,
}

impl Batch {
    /// `marks` is empty, or has one for each id.
    pub fn new(ids: Vec<u32>, marks: Vec<u8>, ends: Vec<u64>) -> Self {
        let (marks, _) = leak(marks);
        let (ends, count) = leak(ends);
        let (ids, size) = leak(ids);
        Batch { ids, marks, ends, size, count }
    }
}

impl Ids {
    pub fn new(tokens: &[Placed], want_offsets: bool) -> Self {
        let (ids, size) = leak(tokens.iter().map(|token| token.id).collect());
        let offsets = if want_offsets {
            // A tokenizer input above 4 GiB does not exist in practice; saturate rather than wrap.
            let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            leak(tokens.iter().flat_map(|token| [narrow(token.begin), narrow(token.end)]).collect()).0
        } else {
            std::ptr::null_mut()
        };
        Ids { ids, offsets, size }
    }
}

impl Spans {
    pub fn new(spans: &[(usize, usize)]) -> Self {
        let (pairs, _) = leak(spans.iter().flat_map(|&(a, b)| [a as u64, b as u64]).collect::<Vec<_>>());
        Spans { pairs, size: spans.len() }
    }
}

fn leak<T>(values: Vec<T>) -> (*mut T, usize) {
    let size = values.len();
    if size == 0 {
        return (std::ptr::null_mut(), 0);
    }
    (Box::into_raw(values.into_boxed_slice()) as *mut T, size)
}

unsafe fn unleak<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

/// Hands `text` to the caller; nothing happens when `out` is NULL.
pub unsafe fn put(out: *mut Buffer, text: String) {
    put_bytes(out, text.into_bytes())
}

/// The same for bytes that may be no text.
pub unsafe fn put_bytes(out: *mut Buffer, bytes: Vec<u8>) {
    if !out.is_null() {
        let (data, size) = leak(bytes);
        *out = Buffer { data, size };
    }
}

/// The caller's bytes; `data` may be NULL when `size` is 0.
pub unsafe fn bytes<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data as *const u8, size)
    }
}

/// The caller's bytes as text.
pub unsafe fn text<'a>(data: *const c_char, size: usize) -> Result<&'a str, String> {
    std::str::from_utf8(bytes(data, size))
        .map_err(|e| format!("the text is not valid UTF-8 at byte {}", e.valid_up_to()))
}

/// Runs `body`; an error or a panic becomes a status and a message in `err`.
pub fn guard(err: *mut Buffer, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let (status, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(Failure::Input(message))) => (ERROR, message),
        Ok(Err(Failure::Raised(message))) => (RAISED, message),
        Ok(Err(Failure::Limit(message))) => (LIMIT, message),
        Ok(Err(Failure::Panic(message))) => (PANIC, message),
        Ok(Err(Failure::NotHad(message))) => (NOT_HAD, message),
        Err(panic) => (PANIC, panic_text(&*panic)),
    };
    unsafe { put(err, message) };
    status
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_buffer_free(buffer: Buffer) {
    unleak(buffer.data, buffer.size)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_ids_free(ids: Ids) {
    unleak(ids.ids, ids.size);
    unleak(ids.offsets, ids.size * 2)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_batch_free(batch: Batch) {
    unleak(batch.ids, batch.size);
    unleak(batch.marks, if batch.marks.is_null() { 0 } else { batch.size });
    unleak(batch.ends, batch.count)
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_spans_free(spans: Spans) {
    unleak(spans.pairs, spans.size * 2)
}
