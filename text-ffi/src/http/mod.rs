//! The HTTP server behind the C ABI of `include/http_ffi.h`: hyper and tokio on one thread of their own.
//!
//! `server` has the thread, the listener and its connections; `call` is one request and what becomes of it; `body` reads
//! requests and writes answers; `socket` is a connection that gives up on a client that takes nothing; `api` is the C ABI.

mod api;
mod body;
mod call;
mod server;
mod socket;
