//! The thread, its listener and its connections.

use super::body::{read, says, Out, Refused};
use super::call::{Call, Counts, Ended};
use super::socket::Socket;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{poll_fn, Future};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch, Notify, Semaphore};

pub struct Limits {
    pub head_bytes: usize,
    pub body_bytes: u64,
    pub all_body_bytes: u64,
    pub held_bytes: u64,
    pub all_answer_bytes: u64,
    pub connections: usize,
    pub read: Duration,
    pub write: Duration,
}

/// What comes to the handler.
pub struct Asked {
    pub id: u64,
    pub head: hyper::http::request::Parts,
    pub body: Bytes,
}

pub type Handler = Box<dyn Fn(Arc<Call>, &Asked) + Send + Sync>;

struct Shared {
    limits: Limits,
    handler: Handler,
    counts: Arc<Counts>,
    silent: Silent,
}

/// One connection: what closes it, and whether a whole head has come on it.
#[derive(Clone)]
struct Door {
    close: Arc<Notify>,
    has_asked: Arc<AtomicBool>,
}

/// The connections that have not asked for anything, the oldest first; some have ended or asked since.
#[derive(Default)]
struct Silent(Mutex<VecDeque<(Weak<Notify>, Arc<AtomicBool>)>>);

impl Silent {
    fn add(&self, door: &Door, most: usize) {
        let mut all = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        if all.len() > 2 * most {
            all.retain(|(close, asked)| close.strong_count() > 0 && !asked.load(Ordering::SeqCst));
        }
        all.push_back((Arc::downgrade(&door.close), door.has_asked.clone()));
    }

    fn close_oldest(&self) {
        let mut all = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        while let Some((close, asked)) = all.pop_front() {
            match close.upgrade() {
                Some(close) if !asked.load(Ordering::SeqCst) => return close.notify_one(),
                _ => {}
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Runs,
    Drains,
    Ends,
}

pub struct Server {
    pub port: u16,
    pub counts: Arc<Counts>,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    for address in addresses {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        match socket.bind(address).and_then(|()| socket.listen(1024)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Server {
    pub fn start(host: &str, port: u16, limits: Limits, handler: Handler) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let entered = runtime.enter();
        let listener = listen(host, port)?;
        drop(entered);
        let port = listener.local_addr()?.port();
        let counts = Arc::new(Counts::default());
        let (phase, watched) = watch::channel(Phase::Runs);
        let shared = Arc::new(Shared { limits, handler, counts: counts.clone(), silent: Silent::default() });
        let thread = std::thread::Builder::new().name("hone-http".into()).spawn(move || {
            runtime.block_on(serve(listener, shared, watched));
            drop(runtime); // with all connections
        })?;
        Ok(Server { port, counts, phase, thread: Some(thread) })
    }

    pub fn drain(&self, patience: Duration) -> bool {
        let _ = self.phase.send(Phase::Drains);
        let wait = |until: Instant, counter: &std::sync::atomic::AtomicU64| loop {
            if counter.load(Ordering::SeqCst) == 0 {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let ended = wait(Instant::now() + patience, &self.counts.calls);
        // Last bytes are on their way; a connection that never asked for anything is not waited for.
        if ended {
            wait(Instant::now() + patience.min(Duration::from_millis(500)), &self.counts.connections);
        }
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.phase.send(Phase::Ends);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ready when the phase is no longer `Runs`.
async fn changed(phase: &mut watch::Receiver<Phase>, from: Phase) -> Phase {
    loop {
        let now = *phase.borrow_and_update();
        if now != from {
            return now;
        }
        if phase.changed().await.is_err() {
            return Phase::Ends;
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut phase: watch::Receiver<Phase>) {
    let places = Arc::new(Semaphore::new(shared.limits.connections.max(1)));
    let watched = phase.clone();
    {
        let mut drains = pin!(changed(&mut phase, Phase::Runs));
        let mut accepts = pin!(accept(&listener, &shared, &places, &watched));
        poll_fn(|cx| match drains.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => accepts.as_mut().poll(cx),
        })
        .await;
    }
    drop(listener);
    if *phase.borrow() == Phase::Drains {
        changed(&mut phase, Phase::Drains).await;
    }
}

async fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    places: &Arc<Semaphore>,
    phase: &watch::Receiver<Phase>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Who holds connections and says nothing does not keep others out.
                if places.available_permits() == 0 {
                    shared.silent.close_oldest();
                }
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let (shared, phase) = (shared.clone(), phase.clone());
                let door = Door { close: Arc::new(Notify::new()), has_asked: Arc::default() };
                shared.silent.add(&door, shared.limits.connections);
                shared.counts.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    connection(stream, &shared, door, phase).await;
                    shared.counts.connections.fetch_sub(1, Ordering::SeqCst);
                    drop(place);
                });
            }
            // No descriptor is free, or the client was gone at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn connection(stream: TcpStream, shared: &Arc<Shared>, door: Door, mut phase: watch::Receiver<Phase>) {
    let _ = stream.set_nodelay(true);
    let socket = TokioIo::new(Socket::new(stream, shared.limits.write));
    let service = service_fn(|request| {
        door.has_asked.store(true, Ordering::SeqCst);
        respond(request, shared.clone(), door.close.clone())
    });
    let mut made = pin!(http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.read)
        .max_buf_size(shared.limits.head_bytes.max(8192))
        .serve_connection(socket, service));
    let mut closes = pin!(door.close.notified());
    let mut drains = pin!(changed(&mut phase, Phase::Runs));
    let mut is_drained = false;
    poll_fn(|cx| {
        if closes.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !is_drained && drains.as_mut().poll(cx).is_ready() {
            is_drained = true;
            made.as_mut().graceful_shutdown();
        }
        made.as_mut().poll(cx).map(|_| ())
    })
    .await
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    close: Arc<Notify>,
) -> Result<Response<Out>, Infallible> {
    let limits = &shared.limits;
    let (head, body) = request.into_parts();
    let reads: Pin<Box<_>> = Box::pin(read(body, limits.body_bytes, limits.all_body_bytes, &shared.counts));
    let (body, counted) = match tokio::time::timeout(limits.read, reads).await {
        Ok(Ok(read)) => read,
        Ok(Err(Refused::TooLarge)) => {
            let words = format!("the body of a request has at most {} bytes", limits.body_bytes);
            return Ok(says(StatusCode::PAYLOAD_TOO_LARGE, &words));
        }
        Ok(Err(Refused::Overloaded)) => {
            return Ok(says(StatusCode::TOO_MANY_REQUESTS, "the bodies of all requests take too much memory"))
        }
        Ok(Err(Refused::Broken)) => {
            return Ok(says(StatusCode::BAD_REQUEST, "the body of the request is broken"))
        }
        Err(_) => {
            return Ok(says(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time"))
        }
    };
    let (send, receive) = oneshot::channel();
    let bytes = counted.keep();
    let most = (limits.held_bytes, limits.all_answer_bytes);
    let call = Call::new(send, most, close, shared.counts.clone(), bytes);
    let ended = Ended::new(call.clone());
    let id = shared.counts.ids.fetch_add(1, Ordering::SeqCst) + 1;
    (shared.handler)(call, &Asked { id, head, body });
    match receive.await {
        Ok(response) => {
            // From here on the body of the answer says when it has ended.
            ended.pass_on();
            Ok(response)
        }
        Err(_) => {
            ended.sent();
            Ok(says(StatusCode::INTERNAL_SERVER_ERROR, "the request was dropped"))
        }
    }
}
