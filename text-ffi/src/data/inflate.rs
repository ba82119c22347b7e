//! gzip and zstd as blocks of text.

use super::{Blocks, BLOCK};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};

/// Text is at most some hundred times smaller when compressed; what grows more is no text, and might have no end.
const MOST_GROWTH: u64 = 5000;
const ALWAYS_ALLOWED: u64 = 1 << 30;

struct Inflated<R> {
    reader: R,
    size: u64,
    given: u64,
}

pub fn gzip(file: File, size: u64) -> impl Blocks {
    Inflated { reader: flate2::bufread::MultiGzDecoder::new(BufReader::new(file)), size, given: 0 }
}

pub fn zstd(file: File, size: u64) -> Result<impl Blocks, String> {
    let reader = zstd::stream::read::Decoder::new(file).map_err(|e| e.to_string())?;
    Ok(Inflated { reader, size, given: 0 })
}

impl<R: Read + Send> Blocks for Inflated<R> {
    fn next(&mut self) -> Result<Vec<u8>, String> {
        let mut block = vec![0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.why(&e)),
            }
        }
        block.truncate(filled);
        self.given += filled as u64;
        if self.given > ALWAYS_ALLOWED.max(self.size.saturating_mul(MOST_GROWTH)) {
            return Err(format!("holds more than {MOST_GROWTH} times its size"));
        }
        Ok(block)
    }
}

impl<R> Inflated<R> {
    fn why(&self, error: &std::io::Error) -> String {
        match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!("ends in the middle of its data, after {} bytes of text", self.given)
            }
            _ => format!("is damaged after {} bytes of text: {error}", self.given),
        }
    }
}
