//! The border to Python: a panic in Rust becomes a Python error that names the source line, and Ctrl-C takes
//! effect within a second.
//!
//! A long computation runs on its own thread while the calling thread checks for signals. A computation that
//! polls its [`Watch`] stops by itself; one that does not is abandoned, and its result is dropped when it
//! ends. A search that improves its result over time returns its best result at the first Ctrl-C and is
//! cancelled at the second.

use crate::RunError;
use pauseframe_routing::watch::{Stopped, Watch};
use pauseframe_scenario::panics::{Panic, caught};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two checks for Ctrl-C, and between two calls of the progress display.
pub(crate) const DISPLAY_EVERY: Duration = Duration::from_millis(100);
/// Time that a computation has to stop by itself after Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(600);
/// Stack size of the computing thread in bytes, as large as that of a main thread.
const STACK: usize = 8 << 20;

/// Runs `work`, and turns a panic in `work` into an internal error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    caught(work).unwrap_or_else(|panic| Err(internal(&panic)))
}

fn internal(panic: &Panic) -> PyErr {
    RunError::new_err(format!(
        "internal error at {}: {}. This is a bug of pauseframe: please report it, with what you gave it",
        panic.place, panic.message
    ))
}

/// The result of a computation, and the exception that stopped the computation early, if any.
pub(crate) type Computed<T> = PyResult<(T, Option<PyErr>)>;

/// Computes with the GIL released; calls `progress` about ten times a second with stage, steps done, total
/// steps and best value.
pub(crate) fn compute<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn Watch) -> T + Send + 'static,
) -> Computed<T> {
    compute_while(py, progress, false, work)
}

/// Like [`compute`]; with `gets_better`, the first Ctrl-C asks for the best result so far and raises no
/// exception.
fn compute_while<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    gets_better: bool,
    work: impl FnOnce(&mut dyn Watch) -> T + Send + 'static,
) -> Computed<T> {
    let state = Arc::new(State::default());
    let mut watch = Watched(Arc::clone(&state));
    let (send, receive) = mpsc::channel();
    // The receiver may be gone already; the result is then dropped.
    let compute = move || drop(send.send(caught(|| work(&mut watch))));
    let thread = std::thread::Builder::new().name("pauseframe".to_owned()).stack_size(STACK);
    thread.spawn(compute)?;
    let receive = Mutex::new(receive);
    let mut raised: Option<(PyErr, Instant)> = None;
    loop {
        match py.detach(|| lock(&receive).recv_timeout(DISPLAY_EVERY)) {
            Ok(Ok(result)) => return Ok((result, raised.map(|(error, _)| error))),
            Ok(Err(panic)) => return Err(internal(&panic)),
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::new_err("a computation was lost")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match raised {
            Some((error, since)) if since.elapsed() > PATIENCE => return Err(error),
            Some(_) => {}
            None => {
                let Err(error) = look_outside(py, progress, &state) else { continue };
                let is_first = gets_better && error.is_instance_of::<PyKeyboardInterrupt>(py);
                if !is_first || state.enough.swap(true, Ordering::Relaxed) {
                    state.stop.store(true, Ordering::Relaxed);
                    raised = Some((error, Instant::now()));
                }
            }
        }
    }
}

/// Like [`compute`], for a computation whose partial result is useless: Ctrl-C discards the result.
pub(crate) fn compute_or_stop<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn Watch) -> T + Send + 'static,
) -> PyResult<T> {
    match compute(py, progress, work)? {
        (_, Some(raised)) => Err(raised),
        (result, None) => Ok(result),
    }
}

/// Like [`compute`], for a search that improves its result over time: Ctrl-C returns the best result so far.
pub(crate) fn compute_or_leave_it<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn Watch) -> T + Send + 'static,
) -> PyResult<T> {
    match compute_while(py, progress, true, work)? {
        (_, Some(raised)) => Err(raised),
        (result, None) => Ok(result),
    }
}

/// State that the computing thread and the calling thread share.
#[derive(Default)]
struct State {
    stop: AtomicBool,
    enough: AtomicBool,
    /// Stage, steps done, total steps.
    progress: Mutex<Option<(&'static str, u64, u64)>>,
    best: Mutex<Option<f64>>,
}

struct Watched(Arc<State>);

impl Watch for Watched {
    fn step(&mut self, stage: &'static str, done: u64, of: u64) -> Result<(), Stopped> {
        *lock(&self.0.progress) = Some((stage, done, of));
        if self.0.stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }

    fn enough(&self) -> bool {
        self.0.enough.load(Ordering::Relaxed)
    }

    fn best(&mut self, detour: f64) {
        *lock(&self.0.best) = Some(detour);
    }
}

/// Calls the progress display, and raises the exception of a signal or of the display.
fn look_outside(py: Python<'_>, progress: Option<&Py<PyAny>>, state: &State) -> PyResult<()> {
    let now = *lock(&state.progress);
    if let (Some(show), Some((stage, done, of))) = (progress, now) {
        let now = PyDict::new(py);
        now.set_item("stage", stage)?;
        now.set_item("done", done)?;
        now.set_item("of", of)?;
        now.set_item("best", *lock(&state.best))?;
        show.call1(py, (now,))?;
    }
    py.check_signals()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a serialisable value into plain Python values.
pub(crate) fn plain<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
