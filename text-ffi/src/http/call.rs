//! One request, and what becomes of it.

use super::body::{says, Out};
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, Notify};

/// What all calls of a server count together.
#[derive(Default)]
pub struct Counts {
    pub ids: AtomicU64,
    pub connections: AtomicU64,
    pub calls: AtomicU64,
    pub body_bytes: AtomicU64,
    /// Of answers, until the sockets have taken them.
    pub answer_bytes: AtomicU64,
}

/// Bytes of an answer, counted until the connection has written them or has ended.
struct Waiting {
    bytes: Box<[u8]>,
    counts: Arc<Counts>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.counts.answer_bytes.fetch_sub(self.bytes.len() as u64, Ordering::SeqCst);
    }
}

pub type OfUser = unsafe extern "C" fn(*mut c_void);

/// A function to call when the client leaves; its data is freed with it.
pub struct Left {
    pub function: OfUser,
    pub free: OfUser,
    pub user: *mut c_void,
}
// The header says that the data may be used on any thread.
unsafe impl Send for Left {}

impl Left {
    fn call(self) {
        unsafe { (self.function)(self.user) };
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        unsafe { (self.free)(self.user) };
    }
}

#[derive(Default)]
struct State {
    head: Option<oneshot::Sender<Response<Out>>>,
    parts: Option<mpsc::UnboundedSender<Bytes>>,
    left: Option<Left>,
    over: bool,
}

pub struct Call {
    state: Mutex<State>,
    gone: AtomicBool,
    cut: AtomicBool,
    /// Bytes of the stream that wait for the client.
    pub held: AtomicU64,
    most_held: u64,
    most_of_all: u64,
    close: Arc<Notify>,
    counts: Arc<Counts>,
    body_bytes: u64,
}

impl Call {
    pub fn new(
        head: oneshot::Sender<Response<Out>>,
        (most_held, most_of_all): (u64, u64),
        close: Arc<Notify>,
        counts: Arc<Counts>,
        body_bytes: u64,
    ) -> Arc<Self> {
        counts.calls.fetch_add(1, Ordering::SeqCst);
        Arc::new(Call {
            state: Mutex::new(State { head: Some(head), ..State::default() }),
            gone: AtomicBool::new(false),
            held: AtomicU64::new(0),
            cut: AtomicBool::new(false),
            most_held,
            most_of_all,
            close,
            counts,
            body_bytes,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A copy that is counted. None: the answers of all calls would have too many bytes.
    fn waiting(&self, bytes: &[u8]) -> Option<Bytes> {
        let size = bytes.len() as u64;
        let fits = |all: u64| all.checked_add(size).filter(|all| *all <= self.most_of_all);
        self.counts.answer_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).ok()?;
        Some(Bytes::from_owner(Waiting { bytes: bytes.into(), counts: self.counts.clone() }))
    }

    /// The whole answer, or the head of a stream. The status that the client gets: 503 where the bytes do not fit.
    pub fn answer(
        self: &Arc<Self>,
        status: u16,
        headers: &[(Vec<u8>, Vec<u8>)],
        bytes: &[u8],
        whole: bool,
    ) -> u16 {
        let mut state = self.state();
        let Some(sender) = state.head.take() else { return status };
        let Some(bytes) = self.waiting(bytes) else {
            drop(state);
            self.over(false);
            let words = "answers that other clients do not read take too much memory";
            drop(sender.send(says(StatusCode::SERVICE_UNAVAILABLE, words)));
            return StatusCode::SERVICE_UNAVAILABLE.as_u16();
        };
        let is_empty = whole && bytes.is_empty();
        let body = if whole {
            Out::Whole((!is_empty).then_some(bytes), Ended::new(self.clone()))
        } else {
            let (send, receive) = mpsc::unbounded_channel();
            if !bytes.is_empty() {
                self.held.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                let _ = send.send(bytes);
            }
            state.parts = Some(send);
            Out::stream(receive, Ended::new(self.clone()))
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                response.headers_mut().append(name, value);
            }
        }
        drop(state);
        if is_empty {
            self.over(false); // nobody asks for a body that has no bytes
        }
        // What comes back for a client that has left is dropped outside of the lock: it takes it.
        drop(sender.send(response));
        status
    }

    pub fn part(&self, bytes: &[u8]) {
        if self.is_cut() {
            return;
        }
        let Some(bytes) = self.waiting(bytes) else {
            self.cut.store(true, Ordering::SeqCst);
            self.close.notify_one();
            return;
        };
        let waits = self.held.fetch_add(bytes.len() as u64, Ordering::SeqCst) + bytes.len() as u64;
        let state = self.state();
        if let Some(parts) = &state.parts {
            let _ = parts.send(bytes);
        }
        if waits > self.most_held {
            self.close.notify_one();
        }
    }

    /// A part of the stream is missing: its end is never sent, so that the client does not take it for whole.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub fn end(&self) {
        self.state().parts = None;
    }

    /// Its owner is done with it: without an answer the sender is dropped, and a stream ends.
    pub fn give_up(&self) {
        let mut state = self.state();
        let unsent = state.head.take();
        state.parts = None;
        drop(state);
        drop(unsent);
    }

    pub fn gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// The function is called and freed outside of the lock: it may give back the call.
    pub fn when_gone(&self, left: Option<Left>) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.left, left);
        let now = if self.gone() { state.left.take() } else { None };
        drop(state);
        drop(before);
        if let Some(left) = now {
            left.call();
        }
    }

    /// The answer has been sent, or the client has left.
    fn over(&self, gone: bool) {
        let mut state = self.state();
        if state.over {
            return;
        }
        state.over = true;
        self.counts.calls.fetch_sub(1, Ordering::SeqCst);
        let left = state.left.take();
        if gone {
            self.gone.store(true, Ordering::SeqCst);
            state.parts = None;
        }
        drop(state);
        if let (Some(left), true) = (left, gone) {
            left.call();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.counts.body_bytes.fetch_sub(self.body_bytes, Ordering::SeqCst);
    }
}

/// Lives until the answer has been sent or is given up.
pub struct Ended {
    pub call: Arc<Call>,
    is_passed_on: bool,
}

impl Ended {
    pub fn new(call: Arc<Call>) -> Self {
        Ended { call, is_passed_on: false }
    }
    pub fn sent(&self) {
        self.call.over(false);
    }
    /// Another one, of the answer's body, says so instead.
    pub fn pass_on(mut self) {
        self.is_passed_on = true;
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if !self.is_passed_on {
            self.call.over(true);
        }
    }
}
