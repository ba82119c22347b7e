//! The data files' entry points; see `include/text_ffi.h` for their contracts.

use crate::abi::{guard, put_bytes, text, Buffer, Failure};
use crate::data::{Data, Kind};
use std::ffi::{c_char, c_int};

#[no_mangle]
pub unsafe extern "C" fn hone_text_data_open(
    path: *const c_char,
    size: usize,
    kind: c_int,
    out: *mut *mut Data,
    rows: *mut i64,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let kind = match kind {
            1 => Kind::Gzip,
            2 => Kind::Zstd,
            3 => Kind::Parquet,
            4 => Kind::Arrow,
            other => return Err(Failure::Input(format!("has the unknown kind {other}"))),
        };
        let (data, count) = Data::open(text(path, size)?.to_string(), kind)?;
        *rows = count.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        *out = Box::into_raw(Box::new(data));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_data_next(data: *mut Data, out: *mut Buffer, err: *mut Buffer) -> c_int {
    guard(err, || {
        put_bytes(out, (*data).next()?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_data_free(data: *mut Data) {
    if !data.is_null() {
        drop(Box::from_raw(data));
    }
}
