//! Data files as blocks: compressed text as it was before compression, Parquet and Arrow files as JSON lines.

mod arrow_file;
mod inflate;
mod json_lines;
mod parquet_file;

use crate::abi::Failure;
use crate::sandbox::{self, Limits, MB};

/// What a block may hold and take. Memory is counted when it is asked for, and a page of a Parquet file may claim
/// 2 GB; time is for about 128 rows, or one megabyte of text.
const LIMITS: Limits = Limits { memory: 6 << 30, seconds: 120.0, nests: false };
/// Rows that one byte of a file may stand for; a file that claims more is damaged.
const ROWS_PER_BYTE: u64 = 1000;

/// One open file, whose blocks come one after another.
pub trait Blocks: Send {
    /// Empty at the end.
    fn next(&mut self) -> Result<Vec<u8>, String>;
    /// Of the whole file, where the file says it.
    fn rows(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone, Copy)]
pub enum Kind {
    Gzip,
    Zstd,
    Parquet,
    Arrow,
}

/// `None` after an error: what was being read then is lost.
pub struct Data {
    blocks: Option<Box<dyn Blocks>>,
}

fn limited<T: Send + 'static>(
    body: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    sandbox::run(&LIMITS, body)?.value.map_err(Failure::Input)
}

impl Data {
    pub fn open(path: String, kind: Kind) -> Result<(Self, Option<u64>), Failure> {
        let open = move || -> Result<Box<dyn Blocks>, String> {
            let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
            let size = file.metadata().map_err(|e| e.to_string())?.len();
            let blocks: Box<dyn Blocks> = match kind {
                Kind::Gzip => Box::new(inflate::gzip(file, size)),
                Kind::Zstd => Box::new(inflate::zstd(file, size)?),
                Kind::Parquet => Box::new(parquet_file::open(file, size)?),
                Kind::Arrow => Box::new(arrow_file::open(file, size)?),
            };
            let rows = blocks.rows().unwrap_or(0);
            if rows > size.saturating_mul(ROWS_PER_BYTE) {
                return Err(format!("says that it has {rows} rows, and has only {size} bytes"));
            }
            Ok(blocks)
        };
        let blocks = limited(open)?;
        let rows = blocks.rows();
        Ok((Data { blocks: Some(blocks) }, rows))
    }

    pub fn next(&mut self) -> Result<Vec<u8>, Failure> {
        let Some(mut blocks) = self.blocks.take() else {
            return Err(Failure::Input("was given up after an error".into()));
        };
        let (block, blocks) = limited(move || {
            let block = blocks.next()?;
            Ok((block, blocks))
        })?;
        self.blocks = Some(blocks);
        Ok(block)
    }
}

/// The size of a block of text.
const BLOCK: usize = MB;
