//! The chat template's entry points; see `include/text_ffi.h` for their contracts.

use crate::abi::{bytes, guard, put, text, Buffer, Spans};
use crate::chat::ChatTemplate;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// What a handle points at: a rendering that was stopped still has its template.
pub type Handle = Arc<ChatTemplate>;

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_new(
    source: *const c_char,
    size: usize,
    out: *mut *mut Handle,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        *out = Box::into_raw(Box::new(ChatTemplate::read(text(source, size)?.to_string())?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_free(template: *mut Handle) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_has_generation(template: *const Handle) -> c_int {
    c_int::from((*template).has_generation())
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_apply(
    template: *const Handle,
    request: *const c_char,
    size: usize,
    out: *mut Buffer,
    spans: *mut Spans,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let rendered = (*template).render_within_limits(bytes(request, size))?;
        put(out, rendered.text);
        if !spans.is_null() {
            *spans = Spans::new(&rendered.spans);
        }
        Ok(())
    })
}
