//! Threads for partitions: in each window, every worker but the first runs on its own thread and returns afterwards.
//!
//! Windows are short, so a waiting thread spins briefly before it sleeps, and spins less after failed spins.

use crate::worker::PartitionWorker;
use pauseframe_units::Time;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, Thread};

/// Runs a closure and converts a panic to an error message, for partitions on other threads.
pub type CatchPanic = fn(&mut dyn FnMut()) -> Result<(), String>;

/// Polls before sleeping: some tenths of a millisecond, about the difference between partitions of a large fabric in a window. In a virtual machine,
/// sleeping and waking costs about as much (docs/performance.md).
const MAX_SPINS: u32 = 1 << 14;
/// Polls before sleeping where threads share cores: a spinning thread would keep the core from the thread that it waits for.
const SPINS_OVERSUBSCRIBED: u32 = 1 << 6;
/// After each failed spin the thread polls only [`SPINS_OVERSUBSCRIBED`] times for the next 2, 4, 8, ... waits, up to this power of two.
const BACKOFF_EXPONENT_MAX: u32 = 8;

const IDLE: u8 = 0;
const ASSIGNED: u8 = 1;
const SHUTDOWN: u8 = 2;

/// Passes a worker to its thread. The polled state has its own cache lines.
struct WorkerHandover {
    /// `ASSIGNED`: the thread has a worker; `SHUTDOWN`: no more work follows.
    state: CacheAligned<AtomicU8>,
    work: Mutex<Option<(Box<PartitionWorker>, Time)>>,
    done: Mutex<Option<Result<Box<PartitionWorker>, String>>>,
}

#[repr(align(128))]
struct CacheAligned<T>(T);

/// One thread for each worker but the first.
pub(crate) struct ThreadPool {
    slots: Vec<(Arc<WorkerHandover>, Thread)>,
    backoff: SpinBackoff,
}

impl ThreadPool {
    pub(crate) fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        count: usize,
        catch_panic: CatchPanic,
    ) -> ThreadPool {
        #[expect(clippy::disallowed_methods, reason = "to be woken; no result depends on it")]
        let coordinator = std::thread::current();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let backoff = SpinBackoff::new(count + 1, cores);
        let slot = |_| {
            let (work, done) = (Mutex::new(None), Mutex::new(None));
            let slot = Arc::new(WorkerHandover { state: CacheAligned(AtomicU8::new(IDLE)), work, done });
            let (theirs, coordinator) = (Arc::clone(&slot), coordinator.clone());
            let thread = scope.spawn(move || theirs.run_windows(catch_panic, &coordinator, backoff));
            (slot, thread.thread().clone())
        };
        ThreadPool { slots: (0..count).map(slot).collect(), backoff }
    }

    /// Runs all workers up to `end`, the first on this thread. Returns the error of the first worker that failed.
    pub(crate) fn run_workers(
        &mut self,
        workers: &mut Vec<Box<PartitionWorker>>,
        end: Time,
    ) -> Result<(), String> {
        for ((slot, thread), worker) in self.slots.iter().zip(workers.drain(1..)) {
            *slot.work.lock().unwrap_or_else(PoisonError::into_inner) = Some((worker, end));
            slot.state.0.store(ASSIGNED, Ordering::Release);
            thread.unpark();
        }
        workers[0].run_until(end);
        let mut failed = None;
        for (slot, _) in &self.slots {
            self.backoff.wait_until(|| slot.state.0.load(Ordering::Acquire) != ASSIGNED);
            match slot.done.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(Ok(worker)) => workers.push(worker),
                Some(Err(message)) => failed = failed.or(Some(message)),
                None => failed = failed.or(Some("a partition was lost".to_owned())),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        for (slot, thread) in &self.slots {
            self.backoff.wait_until(|| slot.state.0.load(Ordering::Acquire) != ASSIGNED);
            slot.state.0.store(SHUTDOWN, Ordering::Release);
            thread.unpark();
        }
    }
}

impl WorkerHandover {
    /// Runs assigned windows until shutdown.
    fn run_windows(&self, catch_panic: CatchPanic, coordinator: &Thread, mut backoff: SpinBackoff) {
        loop {
            backoff.wait_until(|| self.state.0.load(Ordering::Acquire) != IDLE);
            if self.state.0.load(Ordering::Acquire) == SHUTDOWN {
                return;
            }
            if let Some((mut worker, end)) = self.work.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let ran = catch_panic(&mut || worker.run_until(end));
                *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran.map(|()| worker));
            }
            self.state.0.store(IDLE, Ordering::Release);
            coordinator.unpark();
        }
    }
}

/// Calls `work` for each number below `count`, all but the first on temporary threads: for rare work. Returns the error of the first call that
/// failed.
///
/// # Panics
/// If `work` panics for the first number.
pub(crate) fn run_on_temporary_threads(
    count: usize,
    catch_panic: CatchPanic,
    work: impl Fn(usize) + Sync,
) -> Result<(), String> {
    let work = &work;
    std::thread::scope(|scope| {
        let other = |number| scope.spawn(move || catch_panic(&mut || work(number)));
        let others: Vec<_> = (1..count).map(other).collect();
        work(0);
        let lost = |_| Err("a thread was lost".to_owned());
        others.into_iter().try_for_each(|other| other.join().unwrap_or_else(lost))
    })
}

/// How often a waiting thread polls before it sleeps.
#[derive(Clone, Copy, Debug)]
struct SpinBackoff {
    spins: u32,
    /// Consecutive failed spins.
    failed_spins: u32,
    /// Remaining waits with fewer polls.
    reduced_rounds: u32,
}

impl SpinBackoff {
    /// The backoff of one of `partitions` threads.
    fn new(partitions: usize, cores: usize) -> SpinBackoff {
        let spins = if partitions <= cores { MAX_SPINS } else { SPINS_OVERSUBSCRIBED };
        SpinBackoff { spins, failed_spins: 0, reduced_rounds: 0 }
    }

    /// The number of polls for the next wait.
    fn next_spin_count(&mut self) -> u32 {
        match self.reduced_rounds.checked_sub(1) {
            Some(left) => {
                self.reduced_rounds = left;
                SPINS_OVERSUBSCRIBED
            }
            None => self.spins,
        }
    }

    /// Records whether a round of `spins` polls failed.
    fn record_spin_result(&mut self, spins: u32, failed: bool) {
        if spins < self.spins {
            return;
        }
        self.failed_spins = if failed { (self.failed_spins + 1).min(BACKOFF_EXPONENT_MAX) } else { 0 };
        self.reduced_rounds = if failed { 1 << self.failed_spins } else { 0 };
    }

    /// Waits until `over` is true: spins briefly, then sleeps until unparked.
    fn wait_until(&mut self, over: impl Fn() -> bool) {
        let spins = self.next_spin_count();
        for _ in 0..spins {
            if over() {
                self.record_spin_result(spins, false);
                return;
            }
            std::hint::spin_loop();
        }
        self.record_spin_result(spins, true);
        while !over() {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: eight spinning partitions on two cores took twenty times as long.
    #[test]
    fn oversubscribed_workers_sleep_early() {
        let spins = |partitions, cores| SpinBackoff::new(partitions, cores).next_spin_count();
        assert_eq!((spins(2, 2), spins(1, 1)), (MAX_SPINS, MAX_SPINS));
        assert!(spins(3, 2) < MAX_SPINS / 100 && spins(8, 2) < MAX_SPINS / 100);
    }

    /// Regression: two runs with two threads each on two cores took 17 times as long as one alone.
    #[test]
    fn idle_workers_back_off() {
        let mut backoff = SpinBackoff::new(2, 2);
        let mut long = |failed| {
            let spins = backoff.next_spin_count();
            backoff.record_spin_result(spins, failed);
            spins == MAX_SPINS
        };
        assert!((0..1_000).all(|_| long(false)), "nothing is in vain");
        let often = (0..10_000).filter(|_| long(true)).count();
        assert!((30..60).contains(&often), "{often}");
        let sober = (0..1_000).position(|_| long(false)).expect("it tries again");
        assert!(sober <= 256 && (0..100).all(|_| long(false)), "once it pays, as ever");
    }
}
