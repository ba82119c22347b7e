//! The chat template's entry points; see `include/text_ffi.h` for their contracts.

use crate::abi::{bytes, guard, put, text, Buffer, Spans};
use crate::chat::ChatTemplate;
use std::ffi::{c_char, c_int};

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_new(
    source: *const c_char,
    size: usize,
    out: *mut *mut ChatTemplate,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let template = ChatTemplate::new(text(source, size)?)?;
        *out = Box::into_raw(Box::new(template));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_has_generation(template: *const ChatTemplate) -> c_int {
    c_int::from((*template).has_generation())
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_template_apply(
    template: *const ChatTemplate,
    request: *const c_char,
    size: usize,
    out: *mut Buffer,
    spans: *mut Spans,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let request = serde_json::from_slice(bytes(request, size)).map_err(|e| e.to_string())?;
        let rendered = (*template).apply(request)?;
        put(out, rendered.text);
        if !spans.is_null() {
            *spans = Spans::new(&rendered.spans);
        }
        Ok(())
    })
}
