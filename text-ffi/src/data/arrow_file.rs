//! Arrow IPC, as a stream (what `datasets` saves) or as a file, which is the same stream between two magic words.
//! The messages' heads are all looked at first, so that no claim of a damaged file takes memory.

use super::{json_lines, Blocks};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::{Message, MessageHeader, RecordBatch as BatchHead};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};

const FILE_MAGIC: &[u8; 8] = b"ARROW1\0\0";
const CONTINUES: [u8; 4] = [0xff; 4];
/// A message's head describes columns and buffers; real ones have some kilobytes.
const MOST_HEAD: u64 = 64 << 20;
/// What a compressed buffer may claim to become.
const MOST_GROWTH: u64 = 5000;

struct ArrowFile {
    reader: StreamReader<BufReader<File>>,
    rows: u64,
    read: u64,
    /// Rows of a batch that have not been given yet, and where they begin.
    batch: Option<(arrow_array::RecordBatch, usize)>,
}

const ROWS_AT_A_TIME: usize = 128;

struct Heads<'a> {
    file: BufReader<&'a File>,
    size: u64,
    rows: u64,
}

impl Heads<'_> {
    fn cut(&self) -> String {
        "ends in the middle of its data".into()
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), String> {
        self.file.read_exact(into).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => self.cut(),
            _ => e.to_string(),
        })
    }

    /// The length of the next message's head; 0 at the end.
    fn length(&mut self) -> Result<u64, String> {
        let at = self.file.stream_position().map_err(|e| e.to_string())?;
        if at == self.size {
            return Ok(0); // streams may end without an end mark
        }
        let mut word = [0; 4];
        self.read(&mut word)?;
        if word == CONTINUES {
            self.read(&mut word)?;
        }
        let length = i32::from_le_bytes(word);
        u64::try_from(length).map_err(|_| format!("is damaged: a message of {length} bytes at byte {at}"))
    }

    fn check_compressed(&mut self, batch: &BatchHead, body: u64, body_length: u64) -> Result<(), String> {
        if batch.compression().is_none() {
            return Ok(());
        }
        for buffer in batch.buffers().into_iter().flatten() {
            let (offset, length) = (buffer.offset(), buffer.length());
            let inside =
                offset >= 0 && length >= 0 && (offset as u64).saturating_add(length as u64) <= body_length;
            if !inside {
                return Err(format!("is damaged: a buffer at {offset} + {length} of {body_length} bytes"));
            }
            if length < 8 {
                continue;
            }
            let mut word = [0; 8];
            self.file.seek(SeekFrom::Start(body + offset as u64)).map_err(|e| e.to_string())?;
            self.read(&mut word)?;
            let claimed = i64::from_le_bytes(word);
            if claimed > 0 && claimed as u64 > (length as u64).saturating_mul(MOST_GROWTH) {
                return Err(format!("is damaged: {length} compressed bytes that claim to be {claimed}"));
            }
        }
        Ok(())
    }

    fn message(&mut self, length: u64) -> Result<(), String> {
        if length > MOST_HEAD || length > self.size {
            return Err(format!("is damaged, or ends in the middle: a message of {length} bytes"));
        }
        let mut head = vec![0; length as usize];
        self.read(&mut head)?;
        let message: Message = arrow_ipc::root_as_message(&head).map_err(|e| format!("is damaged: {e}"))?;
        let body = self.file.stream_position().map_err(|e| e.to_string())?;
        let body_length = u64::try_from(message.bodyLength())
            .map_err(|_| format!("is damaged: a body of {} bytes", message.bodyLength()))?;
        let end = body.checked_add(body_length).filter(|&end| end <= self.size).ok_or_else(|| self.cut())?;
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or("is damaged: an empty batch")?;
                let rows = u64::try_from(batch.length())
                    .map_err(|_| format!("is damaged: a batch of {} rows", batch.length()))?;
                self.rows = self.rows.saturating_add(rows);
                self.check_compressed(&batch, body, body_length)?;
            }
            MessageHeader::DictionaryBatch => {
                let data = message.header_as_dictionary_batch().and_then(|batch| batch.data());
                self.check_compressed(&data.ok_or("is damaged: an empty dictionary")?, body, body_length)?;
            }
            _ => {}
        }
        self.file.seek(SeekFrom::Start(end)).map_err(|e| e.to_string())?;
        Ok(())
    }
}

fn ends_as_file(mut file: &File) -> bool {
    let mut tail = [0; 6];
    file.seek(SeekFrom::End(-6)).and_then(|_| file.read_exact(&mut tail)).is_ok() && tail == FILE_MAGIC[..6]
}

pub fn open(mut file: File, size: u64) -> Result<impl Blocks, String> {
    let mut magic = [0; 8];
    let is_file = size >= 8 && file.read_exact(&mut magic).is_ok() && &magic == FILE_MAGIC;
    let start = SeekFrom::Start(if is_file { 8 } else { 0 });
    if is_file && !ends_as_file(&file) {
        return Err("begins as an Arrow file and ends in the middle of one".into());
    }
    file.seek(start).map_err(|e| e.to_string())?;
    let mut heads = Heads { file: BufReader::new(&file), size, rows: 0 };
    loop {
        let length = heads.length()?;
        if length == 0 {
            break;
        }
        heads.message(length)?;
    }
    let rows = heads.rows;
    file.seek(start).map_err(|e| e.to_string())?;
    let reader = StreamReader::try_new_buffered(file, None).map_err(|e| format!("is damaged: {e}"))?;
    json_lines::check_types(&reader.schema())?;
    Ok(ArrowFile { reader, rows, read: 0, batch: None })
}

impl Blocks for ArrowFile {
    fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some((batch, at)) = &mut self.batch {
                let left = batch.num_rows() - *at;
                if left > 0 {
                    let part = batch.slice(*at, left.min(ROWS_AT_A_TIME));
                    *at += part.num_rows();
                    self.read += part.num_rows() as u64;
                    return Ok(json_lines::write(&part));
                }
            }
            self.batch = match self.reader.next() {
                None => return Ok(Vec::new()),
                Some(Err(e)) => return Err(format!("cannot be read after row {}: {e}", self.read)),
                Some(Ok(batch)) => Some((batch, 0)),
            };
        }
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }
}
