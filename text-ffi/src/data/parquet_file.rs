//! Parquet files as blocks of JSON lines; one row group is open at a time.

use super::{json_lines, Blocks};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

const ROWS_AT_A_TIME: usize = 128;

/// A file that refuses what lies outside of it before memory is taken for that.
struct Bounded {
    file: File,
    size: u64,
}

impl Length for Bounded {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Bounded {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(file))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<bytes::Bytes> {
        let end = start.checked_add(length as u64).filter(|&end| end <= self.size);
        if end.is_none() {
            return Err(ParquetError::EOF(format!("names bytes {start} to {start} + {length}")));
        }
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

struct ParquetFile {
    reader: ParquetRecordBatchReader,
    rows: u64,
    read: u64,
}

fn words(error: &ParquetError) -> String {
    match error {
        ParquetError::EOF(text) => format!("names bytes after its end ({text})"),
        ParquetError::NYI(text) => format!("needs something that hone does not read: {text}"),
        ParquetError::General(text) if text.contains("Disabled feature") => {
            format!("is compressed by a codec that hone does not read ({text})")
        }
        other => format!("is damaged: {other}"),
    }
}

/// That every column chunk lies within the file and has the rows that its row group claims.
fn check(metadata: &ParquetMetaData, size: u64) -> Result<u64, String> {
    let mut rows = 0u64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let claimed = u64::try_from(group.num_rows())
            .map_err(|_| format!("has a row group {index} with {} rows", group.num_rows()))?;
        rows = rows.saturating_add(claimed);
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let length = column.compressed_size();
            let inside = start >= 0 && length >= 0 && (start as u64).saturating_add(length as u64) <= size;
            if !inside {
                return Err(format!(
                    "puts column '{}' of row group {index} at bytes {start} + {length}, and has {size} bytes",
                    column.column_path().string()
                ));
            }
        }
    }
    let total = metadata.file_metadata().num_rows();
    if u64::try_from(total) != Ok(rows) {
        return Err(format!("claims {total} rows, and its row groups {rows}"));
    }
    Ok(rows)
}

pub fn open(file: File, size: u64) -> Result<impl Blocks, String> {
    if size < 12 {
        return Err(format!("has only {size} bytes"));
    }
    let mut tail = [0; 4];
    let mut end = &file;
    end.seek(SeekFrom::End(-4)).and_then(|_| end.read_exact(&mut tail)).map_err(|e| e.to_string())?;
    if &tail != b"PAR1" {
        return Err("begins as a Parquet file and does not end as one".into());
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bounded { file, size }).map_err(|e| words(&e))?;
    let rows = check(builder.metadata(), size)?;
    json_lines::check_types(builder.schema())?;
    let reader = builder.with_batch_size(ROWS_AT_A_TIME).build().map_err(|e| words(&e))?;
    Ok(ParquetFile { reader, rows, read: 0 })
}

impl Blocks for ParquetFile {
    fn next(&mut self) -> Result<Vec<u8>, String> {
        let Some(batch) = self.reader.next() else {
            if self.read != self.rows {
                return Err(format!("claims {} rows and holds {}", self.rows, self.read));
            }
            return Ok(Vec::new());
        };
        let batch = batch.map_err(|e| format!("cannot be read after row {}: {e}", self.read))?;
        self.read += batch.num_rows() as u64;
        Ok(json_lines::write(&batch))
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }
}
