//! Many texts and conversations in one job of the sandbox; see `include/text_ffi.h` for the contract.

use crate::abi::{bytes, guard, Batch, Buffer, Failure};
use crate::chat::Renderer;
use crate::sandbox::{self, Limits, MB};
use crate::tokenizer_api::{self, Reader};
use crate::{byte_level::Placed, template_api};
use std::ffi::{c_char, c_int};

const PLAIN: u8 = 0;
const SPECIAL: u8 = 1;
const CHAT: u8 = 2;

/// Before the first item, whose own limits follow.
const BEGINNING: Limits = Limits { memory: 64 * MB, seconds: 5.0, nests: false };

struct Job {
    reader: tokenizer_api::Handle,
    renderer: Option<Renderer>,
    data: Vec<u8>,
    items: Vec<(usize, u8)>, // where each ends, its kind
    want_marks: bool,
}

struct Done {
    ids: Vec<u32>,
    marks: Vec<u8>,
    ends: Vec<u64>,
}

impl Job {
    fn run(mut self) -> Result<Done, Failure> {
        let mut done = Done {
            ids: Vec::with_capacity(self.data.len() / 3),
            marks: Vec::new(),
            ends: Vec::with_capacity(self.items.len()),
        };
        let mut begin = 0;
        for &(end, kind) in &self.items {
            let item =
                self.data.get(begin..end).ok_or_else(|| "an item ends before it begins".to_string())?;
            begin = end;
            match kind {
                CHAT => {
                    let renderer = self.renderer.as_mut().ok_or_else(|| "no chat template".to_string())?;
                    let rendered = renderer.render(item)?;
                    sandbox::next_part(&Reader::encode_limits(rendered.text.len()));
                    let tokens = self.reader.encode(&rendered.text, false, self.want_marks)?;
                    done.add(&tokens, self.want_marks.then_some(&rendered.spans));
                }
                PLAIN | SPECIAL => {
                    sandbox::next_part(&Reader::encode_limits(item.len()));
                    let text = std::str::from_utf8(item).map_err(|e| Failure::Input(e.to_string()))?;
                    let tokens = self.reader.encode(text, kind == SPECIAL, false)?;
                    done.add(&tokens, self.want_marks.then_some(&[]));
                }
                _ => return Err(format!("an item of kind {kind}").into()),
            }
        }
        Ok(done)
    }
}

impl Done {
    fn add(&mut self, tokens: &[Placed], spans: Option<impl AsRef<[(usize, usize)]>>) {
        self.ids.extend(tokens.iter().map(|token| token.id));
        self.ends.push(self.ids.len() as u64);
        if let Some(spans) = spans {
            let overlaps = |token: &Placed| {
                let meets = |&(begin, end): &(usize, usize)| token.begin < end && token.end > begin;
                token.begin < token.end && spans.as_ref().iter().any(meets)
            };
            self.marks.extend(tokens.iter().map(|token| u8::from(overlaps(token))));
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_text_encode_batch(
    tokenizer: *const tokenizer_api::Handle,
    template: *const template_api::Handle,
    data: *const c_char,
    ends: *const usize,
    kinds: *const u8,
    count: usize,
    want_marks: c_int,
    out: *mut Batch,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        if count == 0 {
            return Ok(());
        }
        let ends = std::slice::from_raw_parts(ends, count);
        let kinds = std::slice::from_raw_parts(kinds, count);
        let data = bytes(data, ends[count - 1]).to_vec();
        let size = data.len();
        let job = Job {
            reader: (*tokenizer).clone(),
            renderer: template.as_ref().map(|template| template.renderer()),
            data,
            items: ends.iter().copied().zip(kinds.iter().copied()).collect(),
            want_marks: want_marks != 0,
        };
        let limits = Limits { memory: BEGINNING.memory.saturating_add(size.saturating_mul(4)), ..BEGINNING };
        let done = sandbox::run(&limits, move || job.run())?.value?;
        *out = Batch::new(done.ids, done.marks, done.ends);
        Ok(())
    })
}
