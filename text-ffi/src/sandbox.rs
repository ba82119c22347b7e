//! Runs work on text that nobody vouches for (a model folder's template or tokenizer) with limits on memory, CPU
//! time and stack.
//!
//! A job runs on a pooled thread. This crate's allocator counts what the job holds. A job that meets a limit never
//! goes on: unwinding out of an allocator is undefined, and a running thread cannot be ended, so it sleeps inside
//! its next allocation and its thread is given up, with the memory it holds. After `MOST_GIVEN_UP` of them every
//! job is refused. The limits that templates usually meet (fuel, widths, depth of the source) are ordinary errors
//! before that; this is for what they leave.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

pub const MB: usize = 1 << 20;
/// Stack of a pooled thread; pages that it never reaches cost nothing. A job that may make deeper values gets a
/// thread of its own.
const STACK: usize = 512 * MB;
/// A job that allocates below this much of its stack is stopped; the rest is for recursions that allocate nothing,
/// such as the drop of deep values, whose depth the memory limit bounds.
const STACK_IN_USE: usize = 32 * MB;
/// Stack that the drop of a deep value takes for each byte of the value, rounded up.
const STACK_PER_BYTE: usize = 4;
const MOST_GIVEN_UP: usize = 12;
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub struct Limits {
    pub memory: usize,
    pub seconds: f64, // of CPU time
    pub nests: bool,  // can its memory become one value of values of values?
}

impl Limits {
    fn nanoseconds(&self) -> i64 {
        (self.seconds * 1e9) as i64
    }
}

/// Why a job has no result.
pub enum Stopped {
    Memory(usize),
    Time(f64),
    Depth,
    GivenUp,
    NoThread(String),
    Panic(String),
}

impl Stopped {
    /// The end of the sentence "the template ...".
    pub fn words(&self) -> String {
        match self {
            Stopped::Memory(bytes) => format!("needs more than {} MB of memory", bytes / MB),
            Stopped::Time(seconds) => format!("takes more than {seconds:.0} s of CPU time"),
            Stopped::Depth => "recurses without end, or nests too deeply".into(),
            Stopped::GivenUp => {
                format!("is not read any more: {MOST_GIVEN_UP} attempts met their limits in this process")
            }
            Stopped::NoThread(why) => format!("has no thread to run on: {why}"),
            Stopped::Panic(message) => format!("made its reader fail: {message}"),
        }
    }
}

/// A job's result and the bytes that it allocated and still holds, the result's own included.
pub struct Done<T> {
    pub value: T,
    pub held: isize,
}

// ---- the allocator ----------------------------------------------------------------------------------------------

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LOCAL: Local = const {
        Local {
            used: Cell::new(0),
            most: Cell::new(isize::MAX),
            floor: Cell::new(0),
            control: Cell::new(std::ptr::null()),
        }
    };
}

struct Local {
    used: Cell<isize>, // allocated minus freed by this thread
    most: Cell<isize>,
    floor: Cell<usize>, // lowest address of the stack that a job may allocate from
    control: Cell<*const Control>, // null outside jobs
}

fn charge(bytes: isize) {
    LOCAL.with(|local| {
        let used = local.used.get() + bytes;
        local.used.set(used);
        let control = local.control.get();
        if !control.is_null() && bytes > 0 {
            // SAFETY: the worker keeps the control of its job alive while the pointer is set.
            look(local, unsafe { &*control }, used);
        }
    });
}

fn look(local: &Local, control: &Control, used: isize) {
    let here = 0u8;
    let why = if used > local.most.get() {
        End::Memory
    } else if (std::ptr::from_ref(&here) as usize) < local.floor.get() {
        End::Depth
    } else if control.doomed.load(Ordering::Relaxed) {
        End::Time
    } else {
        return;
    };
    local.control.set(std::ptr::null());
    control.finish(why);
    loop {
        // SAFETY: sleeps; the thread owns nothing that others wait for but its job's result.
        unsafe { libc::pause() };
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX / 4)
}

// SAFETY: System does the work; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(signed(layout.size()));
        System.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(signed(layout.size()));
        System.alloc_zeroed(layout)
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        charge(-signed(layout.size()));
        System.dealloc(at, layout)
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(signed(size) - signed(layout.size()));
        System.realloc(at, layout, size)
    }
}

// ---- jobs -------------------------------------------------------------------------------------------------------

#[derive(Clone, Copy, PartialEq)]
enum End {
    Running,
    Returned,
    Memory,
    Depth,
    Time,
}

/// What a job's thread and its caller share; no part of it allocates.
struct Control {
    end: Mutex<End>,
    ended: Condvar,
    doomed: AtomicBool,
    clock: AtomicI64,   // CPU clock of the job's thread plus 1; 0 until it began
    started: AtomicI64, // nanoseconds on that clock
    most: AtomicI64,    // nanoseconds from then
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    fn new(limits: &Limits) -> Self {
        Control {
            end: Mutex::new(End::Running),
            ended: Condvar::new(),
            doomed: AtomicBool::new(false),
            clock: AtomicI64::new(0),
            started: AtomicI64::new(0),
            most: AtomicI64::new(limits.nanoseconds()),
        }
    }

    fn finish(&self, end: End) {
        *lock(&self.end) = end;
        self.ended.notify_one();
    }

    fn begin(&self) {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: writes into `clock`.
        if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } == 0 {
            self.started.store(nanoseconds(clock), Ordering::Relaxed);
            self.clock.store(i64::from(clock) + 1, Ordering::Release);
        }
    }

    /// Counts time from now on. The job's own thread calls this.
    fn begin_again(&self, limits: &Limits) {
        // In this order: a caller that reads one new number sees more time left, not less.
        self.started.store(nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Release);
        self.most.store(limits.nanoseconds(), Ordering::Release);
    }

    fn is_over(&self) -> bool {
        let most = self.most.load(Ordering::Acquire);
        match self.clock.load(Ordering::Acquire) {
            0 => false,
            // A clock's number fits the type that it came from.
            clock => {
                let now = nanoseconds((clock - 1) as libc::clockid_t);
                now - self.started.load(Ordering::Acquire) > most
            }
        }
    }

    /// Blocks until the job ends or has used up its time.
    fn wait(&self) -> End {
        let mut end = lock(&self.end);
        while *end == End::Running {
            let (guard, waited) =
                self.ended.wait_timeout(end, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner);
            end = guard;
            if *end == End::Running && waited.timed_out() && self.is_over() {
                self.doomed.store(true, Ordering::Relaxed);
                return End::Time;
            }
        }
        *end
    }
}

fn nanoseconds(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    process: u32, // after a fork the threads are the parent's
    idle: Vec<Sender<Job>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { process: 0, idle: Vec::new() });
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
static QUIET: Once = Once::new();

fn worker(stack: usize) -> Result<Sender<Job>, Stopped> {
    if stack == STACK {
        let mut pool = lock(&POOL);
        if pool.process != std::process::id() {
            pool.process = std::process::id();
            std::mem::forget(std::mem::take(&mut pool.idle));
        }
        if let Some(idle) = pool.idle.pop() {
            return Ok(idle);
        }
    }
    let (sender, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("hone-text".into()).stack_size(stack);
    let body = move || {
        let top = 0u8;
        let top = std::ptr::from_ref(&top) as usize;
        LOCAL.with(|local| local.floor.set(top.saturating_sub(STACK_IN_USE)));
        while let Ok(job) = jobs.recv() {
            job();
        }
    };
    // Signals are for the threads that expect them: a worker starts with all of them blocked.
    // SAFETY: the sets are this function's own.
    let started = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
            libc::sigdelset(&mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = thread.spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    };
    started.map(|_| sender).map_err(|e| Stopped::NoThread(e.to_string()))
}

/// A panic's message is passed on as an error, so the default hook's print is left out for jobs.
fn silence_panics_of_jobs() {
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some("hone-text") {
                usual(info);
            }
        }));
    });
}

pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_string()
}

struct Slot<T> {
    control: Control,
    result: Mutex<Option<Done<Result<T, String>>>>,
}

/// Runs `body` and waits. What it borrows it owns: the caller may be gone when it is stopped.
pub fn run<T: Send + 'static>(
    limits: &Limits,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Done<T>, Stopped> {
    if GIVEN_UP.load(Ordering::Relaxed) >= MOST_GIVEN_UP {
        return Err(Stopped::GivenUp);
    }
    silence_panics_of_jobs();
    let stack = match limits.nests {
        true => STACK.max(limits.memory.saturating_mul(STACK_PER_BYTE)),
        false => STACK,
    };
    let worker = worker(stack)?;
    let slot = Arc::new(Slot { control: Control::new(limits), result: Mutex::new(None) });
    let (theirs, memory) = (slot.clone(), signed(limits.memory));
    let job = move || {
        let before = LOCAL.with(|local| {
            local.most.set(local.used.get().saturating_add(memory));
            theirs.control.begin();
            local.control.set(&theirs.control);
            local.used.get()
        });
        let outcome = catch_unwind(AssertUnwindSafe(body)).map_err(|panic| panic_text(&*panic));
        let held = LOCAL.with(|local| {
            local.control.set(std::ptr::null());
            local.used.get() - before
        });
        *lock(&theirs.result) = Some(Done { value: outcome, held });
        theirs.control.finish(End::Returned);
    };
    worker.send(Box::new(job)).map_err(|_| Stopped::NoThread("it ended".into()))?;
    let end = slot.control.wait();
    if end == End::Returned {
        if stack == STACK {
            lock(&POOL).idle.push(worker);
        }
        let done = lock(&slot.result).take();
        return match done {
            Some(Done { value: Ok(value), held }) => Ok(Done { value, held }),
            Some(Done { value: Err(message), .. }) => Err(Stopped::Panic(message)),
            None => Err(Stopped::NoThread("it ended without a result".into())),
        };
    }
    GIVEN_UP.fetch_add(1, Ordering::Relaxed);
    Err(match end {
        End::Memory => Stopped::Memory(limits.memory),
        End::Depth => Stopped::Depth,
        _ => Stopped::Time(limits.seconds),
    })
}

/// In a job that has several parts: the part that begins now may use this much. False where its values could nest
/// deeper than the stack of the job's thread is made for.
pub fn next_part(limits: &Limits) -> bool {
    LOCAL.with(|local| {
        local.most.set(local.used.get().saturating_add(signed(limits.memory)));
        let control = local.control.get();
        if !control.is_null() {
            // SAFETY: the worker keeps the control of its job alive while the pointer is set.
            unsafe { &*control }.begin_again(limits);
        }
    });
    !limits.nests || limits.memory.saturating_mul(STACK_PER_BYTE) <= STACK
}

/// What this thread has allocated and not freed, counted from an arbitrary number.
pub fn used() -> isize {
    LOCAL.with(|local| local.used.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { memory: 8 * MB, seconds: 0.1, nests: false };

    #[test]
    fn results_come_back_and_threads_are_used_again() {
        for i in 0..100 {
            assert_eq!(run(&SMALL, move || vec![i; 10]).ok().map(|d| (d.value[9], d.held)), Some((i, 40)));
        }
    }

    #[test]
    fn jobs_are_stopped_at_their_limits() {
        let grown = run(&SMALL, || (0..40).fold(vec![1u8], |v, _| [v.clone(), v].concat()).len());
        assert!(matches!(grown, Err(Stopped::Memory(_))));
        let endless = run(&SMALL, || {
            let mut n = 0u64;
            while n < u64::MAX {
                n += std::hint::black_box(vec![1u8; 16]).len() as u64 / 16;
            }
            n
        });
        assert!(matches!(endless, Err(Stopped::Time(_))));
        fn deeper(n: u64) -> u64 {
            let kept = std::hint::black_box(Box::new(n));
            if n == u64::MAX {
                0
            } else {
                deeper(n + 1) + *kept
            }
        }
        let roomy = Limits { memory: 200 * MB, seconds: 5.0, nests: true };
        assert!(matches!(run(&roomy, || deeper(0)), Err(Stopped::Depth)));
        let parts = run(&SMALL, || {
            for _ in 0..4 {
                assert!(next_part(&SMALL));
                std::hint::black_box(vec![1u8; 6 * MB]);
                let begin = std::time::Instant::now();
                while begin.elapsed() < Duration::from_millis(60) {}
            }
            let kept = vec![1u8; 6 * MB];
            assert!(next_part(&SMALL));
            kept.len() + vec![1u8; 6 * MB].len()
        });
        assert!(parts.is_ok_and(|done| done.value == 12 * MB));
        let one_too_large = run(&SMALL, || {
            next_part(&SMALL);
            std::hint::black_box(vec![1u8; 9 * MB]).len()
        });
        assert!(matches!(one_too_large, Err(Stopped::Memory(_))));
        let panicking = run(&SMALL, || -> i32 { panic!("no {}", 1) });
        assert!(matches!(panicking, Err(Stopped::Panic(m)) if m == "no 1"));
        assert!(run(&SMALL, || 7).is_ok_and(|d| d.value == 7));
    }
}
