//! Arrow's columns as JSON lines, with the values that `datasets` gives as Python objects: nulls are written, structs
//! are objects, columns of the extension type arrow.json are the JSON that they hold. What JSON cannot hold is text:
//! times in ISO form, decimals, binary as base64; NaN and the infinities are null.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{temporal_conversions as times, Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use base64::Engine;
use serde::Serialize;

const EXTENSION: &str = "ARROW:extension:name";
const JSON_EXTENSION: &str = "arrow.json";

/// That every column can be written.
pub fn check_types(schema: &Schema) -> Result<(), String> {
    match schema.fields().iter().find(|field| !is_known(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(format!(
            "has the column '{}' of type {}, which hone does not read",
            field.name(),
            field.data_type()
        )),
    }
}

fn is_known(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => is_known(item.data_type()),
        Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        Dictionary(_, value) => is_known(value),
        Union(..) | RunEndEncoded(..) | ListView(_) | LargeListView(_) | Interval(_) => false,
        Decimal32(..) | Decimal64(..) => false,
        _ => true,
    }
}

/// One line a row.
pub fn write(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let schema = batch.schema();
    for row in 0..batch.num_rows() {
        let columns = schema.fields().iter().zip(batch.columns());
        object(columns.map(|(field, column)| (field.as_ref(), column)), row, &mut out);
        out.push(b'\n');
    }
    out
}

fn object<'a>(columns: impl Iterator<Item = (&'a Field, &'a ArrayRef)>, row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (field, column)) in columns.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(field.name().as_str(), out);
        out.push(b':');
        value(field, column.as_ref(), row, out);
    }
    out.push(b'}');
}

/// Of the kinds that end here nothing fails: text, numbers, booleans and null.
fn put<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

fn text(field: &Field, value: &str, out: &mut Vec<u8>) {
    let is_json = field.metadata().get(EXTENSION).is_some_and(|name| name == JSON_EXTENSION);
    if is_json {
        if let Ok(parsed) = serde_json::from_str::<serde_json::Value>(value) {
            return put(&parsed, out);
        }
    }
    put(value, out)
}

fn list(item: &Field, items: &dyn Array, out: &mut Vec<u8>) {
    out.push(b'[');
    for i in 0..items.len() {
        if i > 0 {
            out.push(b',');
        }
        value(item, items, i, out);
    }
    out.push(b']');
}

macro_rules! number {
    ($kind:ty, $array:expr, $row:expr, $out:expr) => {
        put(&$array.as_primitive::<$kind>().value($row), $out)
    };
}

macro_rules! time {
    ($array:expr, $row:expr, $out:expr, $kind:ty, $convert:path) => {
        match $convert(i64::from($array.as_primitive::<$kind>().value($row))) {
            Some(at) => put(&format!("{at:?}"), $out),
            None => put(&(), $out),
        }
    };
}

fn value(field: &Field, array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    use DataType::*;
    if array.is_null(row) || array.data_type() == &Null {
        return put(&(), out);
    }
    match array.data_type() {
        Boolean => put(&array.as_boolean().value(row), out),
        Utf8 => text(field, array.as_string::<i32>().value(row), out),
        LargeUtf8 => text(field, array.as_string::<i64>().value(row), out),
        Utf8View => text(field, array.as_string_view().value(row), out),
        Int8 => number!(Int8Type, array, row, out),
        Int16 => number!(Int16Type, array, row, out),
        Int32 => number!(Int32Type, array, row, out),
        Int64 => number!(Int64Type, array, row, out),
        UInt8 => number!(UInt8Type, array, row, out),
        UInt16 => number!(UInt16Type, array, row, out),
        UInt32 => number!(UInt32Type, array, row, out),
        UInt64 => number!(UInt64Type, array, row, out),
        Float16 => put(&array.as_primitive::<Float16Type>().value(row).to_f64(), out),
        Float32 => put(&f64::from(array.as_primitive::<Float32Type>().value(row)), out),
        Float64 => number!(Float64Type, array, row, out),
        List(item) => list(item, array.as_list::<i32>().value(row).as_ref(), out),
        LargeList(item) => list(item, array.as_list::<i64>().value(row).as_ref(), out),
        FixedSizeList(item, _) => list(item, array.as_fixed_size_list().value(row).as_ref(), out),
        Struct(fields) => object(fields.iter().map(AsRef::as_ref).zip(array.as_struct().columns()), row, out),
        Map(..) => map(array, row, out),
        Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            value(field, dictionary.values().as_ref(), key, out)
        }
        Binary => base64(array.as_binary::<i32>().value(row), out),
        LargeBinary => base64(array.as_binary::<i64>().value(row), out),
        BinaryView => base64(array.as_binary_view().value(row), out),
        FixedSizeBinary(_) => base64(array.as_fixed_size_binary().value(row), out),
        Decimal128(..) => put(&array.as_primitive::<Decimal128Type>().value_as_string(row), out),
        Decimal256(..) => put(&array.as_primitive::<Decimal256Type>().value_as_string(row), out),
        other => time(other, array, row, out),
    }
}

fn time(data_type: &DataType, array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    use DataType::*;
    match data_type {
        Date32 => time!(array, row, out, Date32Type, times::as_date::<Date32Type>),
        Date64 => time!(array, row, out, Date64Type, times::as_date::<Date64Type>),
        Timestamp(TimeUnit::Second, _) => {
            time!(array, row, out, TimestampSecondType, times::as_datetime::<TimestampSecondType>)
        }
        Timestamp(TimeUnit::Millisecond, _) => {
            time!(array, row, out, TimestampMillisecondType, times::as_datetime::<TimestampMillisecondType>)
        }
        Timestamp(TimeUnit::Microsecond, _) => {
            time!(array, row, out, TimestampMicrosecondType, times::as_datetime::<TimestampMicrosecondType>)
        }
        Timestamp(TimeUnit::Nanosecond, _) => {
            time!(array, row, out, TimestampNanosecondType, times::as_datetime::<TimestampNanosecondType>)
        }
        Time32(TimeUnit::Second) => {
            time!(array, row, out, Time32SecondType, times::as_time::<Time32SecondType>)
        }
        Time32(_) => time!(array, row, out, Time32MillisecondType, times::as_time::<Time32MillisecondType>),
        Time64(TimeUnit::Microsecond) => {
            time!(array, row, out, Time64MicrosecondType, times::as_time::<Time64MicrosecondType>)
        }
        Time64(_) => time!(array, row, out, Time64NanosecondType, times::as_time::<Time64NanosecondType>),
        Duration(TimeUnit::Second) => number!(DurationSecondType, array, row, out),
        Duration(TimeUnit::Millisecond) => number!(DurationMillisecondType, array, row, out),
        Duration(TimeUnit::Microsecond) => number!(DurationMicrosecondType, array, row, out),
        Duration(TimeUnit::Nanosecond) => number!(DurationNanosecondType, array, row, out),
        _ => put(&(), out),
    }
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    put(&base64::engine::general_purpose::STANDARD.encode(bytes), out)
}

/// An object; a key that is no text is written as its JSON.
fn map(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    let entries = array.as_map().value(row);
    let (DataType::Struct(fields), [keys, values]) = (entries.data_type(), entries.columns()) else {
        return put(&(), out);
    };
    out.push(b'{');
    for i in 0..entries.len() {
        if i > 0 {
            out.push(b',');
        }
        let mut key = Vec::new();
        value(&fields[0], keys.as_ref(), i, &mut key);
        if key.first() == Some(&b'"') {
            out.extend_from_slice(&key);
        } else {
            put(String::from_utf8_lossy(&key).as_ref(), out);
        }
        out.push(b':');
        value(&fields[1], values.as_ref(), i, out);
    }
    out.push(b'}');
}
