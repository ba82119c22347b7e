//! The entry points of `include/http_ffi.h`.

use super::call::{Call, Left, OfUser};
use super::server::{Asked, Handler, Limits, Server};
use crate::abi::{bytes, guard, text, Buffer};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    data: *const c_char,
    size: usize,
}

impl Text {
    fn of(bytes: &[u8]) -> Self {
        Text { data: bytes.as_ptr() as *const c_char, size: bytes.len() }
    }
    unsafe fn copy(&self) -> Vec<u8> {
        bytes(self.data, self.size).to_vec()
    }
}

#[repr(C)]
pub struct Header {
    name: Text,
    value: Text,
}

#[repr(C)]
pub struct Options {
    host: Text,
    port: u16,
    head_bytes: u64,
    body_bytes: u64,
    all_body_bytes: u64,
    held_bytes: u64,
    all_answer_bytes: u64,
    connections: u64,
    read_seconds: f64,
    write_seconds: f64,
}

#[repr(C)]
pub struct Views {
    id: u64,
    method: Text,
    path: Text,
    query: Text,
    body: Text,
    headers: *const Header,
    header_count: usize,
}

type Receive = unsafe extern "C" fn(*mut c_void, *mut Arc<Call>, *const Views);

struct User(*mut c_void);
unsafe impl Send for User {}
unsafe impl Sync for User {}
impl User {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::from_secs(1 << 30))
}

fn hand_over(receive: Receive, user: *mut c_void, call: Arc<Call>, asked: &Asked) {
    let headers: Vec<Header> = asked
        .head
        .headers
        .iter()
        .map(|(name, value)| Header {
            name: Text::of(name.as_str().as_bytes()),
            value: Text::of(value.as_bytes()),
        })
        .collect();
    let views = Views {
        id: asked.id,
        method: Text::of(asked.head.method.as_str().as_bytes()),
        path: Text::of(asked.head.uri.path().as_bytes()),
        query: Text::of(asked.head.uri.query().unwrap_or("").as_bytes()),
        body: Text::of(&asked.body),
        headers: headers.as_ptr(),
        header_count: headers.len(),
    };
    unsafe { receive(user, Box::into_raw(Box::new(call)), &views) };
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_start(
    options: *const Options,
    receive: Receive,
    user: *mut c_void,
    out: *mut *mut Server,
    err: *mut Buffer,
) -> c_int {
    guard(err, || {
        let options = &*options;
        let host = text(options.host.data, options.host.size)?;
        let user = User(user);
        let handler: Handler = Box::new(move |call, asked| hand_over(receive, user.get(), call, asked));
        let limits = Limits {
            head_bytes: options.head_bytes as usize,
            body_bytes: options.body_bytes,
            all_body_bytes: options.all_body_bytes,
            held_bytes: options.held_bytes,
            all_answer_bytes: options.all_answer_bytes,
            connections: options.connections as usize,
            read: seconds(options.read_seconds),
            write: seconds(options.write_seconds),
        };
        let server = Server::start(host, options.port, limits, handler).map_err(|e| e.to_string())?;
        *out = Box::into_raw(Box::new(server));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_port(server: *const Server) -> u16 {
    (&*server).port
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_connections(server: *const Server) -> u64 {
    (&*server).counts.connections.load(Ordering::SeqCst)
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_drain(server: *const Server, patience: f64) -> c_int {
    c_int::from((&*server).drain(seconds(patience)))
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_free(server: *mut Server) {
    if !server.is_null() {
        drop(Box::from_raw(server));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_answer(
    call: *const Arc<Call>,
    status: u16,
    headers: *const Header,
    header_count: usize,
    body: *const c_char,
    size: usize,
    whole: c_int,
) -> u16 {
    let given = if header_count == 0 { &[] } else { std::slice::from_raw_parts(headers, header_count) };
    let headers: Vec<_> = given.iter().map(|header| (header.name.copy(), header.value.copy())).collect();
    (&*call).answer(status, &headers, bytes(body, size), whole != 0)
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_part(call: *const Arc<Call>, data: *const c_char, size: usize) {
    (&*call).part(bytes(data, size));
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_end(call: *const Arc<Call>) {
    (&*call).end();
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_gone(call: *const Arc<Call>) -> c_int {
    c_int::from((&*call).gone())
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_when_gone(
    call: *const Arc<Call>,
    left: Option<OfUser>,
    free: Option<OfUser>,
    user: *mut c_void,
) {
    (&*call).when_gone(left.zip(free).map(|(function, free)| Left { function, free, user }));
}

#[no_mangle]
pub unsafe extern "C" fn hone_http_free_call(call: *mut Arc<Call>) {
    if !call.is_null() {
        let call = Box::from_raw(call);
        call.when_gone(None);
        call.give_up();
    }
}
