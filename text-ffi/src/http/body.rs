//! Bodies: of a request, read with limits, and of an answer, whole or in parts.

use super::call::{Counts, Ended};
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderValue, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub enum Out {
    /// What the server itself says.
    Plain(Option<Bytes>),
    Whole(Option<Bytes>, Ended),
    Stream(mpsc::UnboundedReceiver<Bytes>, Ended),
}

impl Out {
    pub fn stream(parts: mpsc::UnboundedReceiver<Bytes>, ended: Ended) -> Self {
        Out::Stream(parts, ended)
    }
}

impl Body for Out {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Out::Plain(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Out::Whole(bytes, ended) => {
                ended.sent();
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Out::Stream(parts, ended) => match parts.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) if ended.call.is_cut() => Poll::Pending, // its connection is about to be closed
                Poll::Ready(None) => {
                    ended.sent();
                    Poll::Ready(None)
                }
                Poll::Ready(Some(bytes)) => {
                    ended.call.held.fetch_sub(bytes.len() as u64, Ordering::SeqCst);
                    Poll::Ready(Some(Ok(Frame::data(bytes))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Out::Plain(None) | Out::Whole(None, _))
    }

    fn size_hint(&self) -> SizeHint {
        let size = |bytes: &Option<Bytes>| SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64));
        match self {
            Out::Plain(bytes) | Out::Whole(bytes, _) => size(bytes),
            Out::Stream(..) => SizeHint::default(),
        }
    }
}

/// What the server itself says; the connection ends with it.
pub fn says(status: StatusCode, words: &str) -> Response<Out> {
    let text = format!(
        "{{\"error\":{{\"message\":\"{words}\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}}}"
    );
    let mut out = Response::new(Out::Plain(Some(Bytes::from(text))));
    *out.status_mut() = status;
    out.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // What of the body has not been read cannot be skipped.
    out.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        out.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    out
}

pub enum Refused {
    TooLarge,
    Overloaded,
    /// The connection broke, or what came is no body.
    Broken,
}

/// The bytes of a body that count in `Counts::body_bytes` until this is gone.
pub struct Counted<'a> {
    counts: &'a Counts,
    pub bytes: u64,
}

impl Counted<'_> {
    /// They go on counting.
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counts.body_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

pub async fn read<'a>(
    mut body: Incoming,
    most: u64,
    most_of_all: u64,
    counts: &'a Counts,
) -> Result<(Bytes, Counted<'a>), Refused> {
    // A stated length is the lower bound: nothing is read then, and "100 Continue" is never sent.
    if body.size_hint().lower() > most {
        return Err(Refused::TooLarge);
    }
    let mut all = BytesMut::new();
    let mut counted = Counted { counts, bytes: 0 };
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        if all.len() as u64 + data.len() as u64 > most {
            return Err(Refused::TooLarge);
        }
        counted.bytes += data.len() as u64;
        if counts.body_bytes.fetch_add(data.len() as u64, Ordering::SeqCst) + data.len() as u64 > most_of_all
        {
            return Err(Refused::Overloaded);
        }
        all.extend_from_slice(&data);
    }
    Ok((all.freeze(), counted))
}
