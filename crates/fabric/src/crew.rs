//! Threads for partitions: each window every partition but the first is handed to a thread of its own, and comes back when it has run.
//!
//! Windows are short, so who waits spins a little before it sleeps; less where that has been in vain.

use crate::room::Room;
use pauseframe_units::Time;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, Thread};

/// How a partition is run where a panic must not pass: on the threads of the partitions. What went wrong is the error.
pub type Shield = fn(&mut dyn FnMut()) -> Result<(), String>;

/// So many looks before going to sleep: some tenths of a millisecond, as the partitions of a large fabric differ in a window. To sleep and be
/// woken costs about as much in a virtual machine (docs/performance.md).
const LOOKS: u32 = 1 << 14;
/// Where there are fewer cores than partitions, or others want them, who looks keeps from its core whom it waits for.
const LOOKS_IN_TURN: u32 = 1 << 6;
/// Who has looked in vain looks no more than [`LOOKS_IN_TURN`] the next two times, then four, and so on up to this power of two.
const IN_VAIN_MOST: u32 = 8;

const IDLE: u8 = 0;
const GIVEN: u8 = 1;
const OVER: u8 = 2;

/// Where a room is handed over. The state that both sides look at again and again has cache lines of its own.
struct Seat {
    /// `GIVEN`: the thread has it; `OVER`: no other will come.
    state: Apart<AtomicU8>,
    work: Mutex<Option<(Box<Room>, Time)>>,
    done: Mutex<Option<Result<Box<Room>, String>>>,
}

#[repr(align(128))]
struct Apart<T>(T);

/// The threads.
pub(crate) struct Crew {
    seats: Vec<(Arc<Seat>, Thread)>,
    patience: Patience,
}

impl Crew {
    pub(crate) fn new<'scope>(scope: &'scope Scope<'scope, '_>, count: usize, shield: Shield) -> Crew {
        #[expect(clippy::disallowed_methods, reason = "to be woken; no result depends on it")]
        let boss = std::thread::current();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let patience = Patience::new(count + 1, cores);
        let seat = |_| {
            let (work, done) = (Mutex::new(None), Mutex::new(None));
            let seat = Arc::new(Seat { state: Apart(AtomicU8::new(IDLE)), work, done });
            let (theirs, boss) = (Arc::clone(&seat), boss.clone());
            let thread = scope.spawn(move || theirs.serve(shield, &boss, patience));
            (seat, thread.thread().clone())
        };
        Crew { seats: (0..count).map(seat).collect(), patience }
    }

    /// Runs all rooms up to `end`, the first one here. What failed is the error, of the first room in which something did.
    pub(crate) fn run(&mut self, rooms: &mut Vec<Box<Room>>, end: Time) -> Result<(), String> {
        for ((seat, thread), room) in self.seats.iter().zip(rooms.drain(1..)) {
            *seat.work.lock().unwrap_or_else(PoisonError::into_inner) = Some((room, end));
            seat.state.0.store(GIVEN, Ordering::Release);
            thread.unpark();
        }
        rooms[0].run(end);
        let mut failed = None;
        for (seat, _) in &self.seats {
            self.patience.wait(|| seat.state.0.load(Ordering::Acquire) != GIVEN);
            match seat.done.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(Ok(room)) => rooms.push(room),
                Some(Err(message)) => failed = failed.or(Some(message)),
                None => failed = failed.or(Some("a partition was lost".to_owned())),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (seat, thread) in &self.seats {
            self.patience.wait(|| seat.state.0.load(Ordering::Acquire) != GIVEN);
            seat.state.0.store(OVER, Ordering::Release);
            thread.unpark();
        }
    }
}

impl Seat {
    /// What the thread does.
    fn serve(&self, shield: Shield, boss: &Thread, mut patience: Patience) {
        loop {
            patience.wait(|| self.state.0.load(Ordering::Acquire) != IDLE);
            if self.state.0.load(Ordering::Acquire) == OVER {
                return;
            }
            if let Some((mut room, end)) = self.work.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let ran = shield(&mut || room.run(end));
                *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran.map(|()| room));
            }
            self.state.0.store(IDLE, Ordering::Release);
            boss.unpark();
        }
    }
}

/// Does `work` for each number below `count`, for all but the first on threads that end with it: for what comes seldom. What failed is
/// the error, of the first in which something did.
///
/// # Panics
/// If `work` does for the first.
pub(crate) fn side_by_side(count: usize, shield: Shield, work: impl Fn(usize) + Sync) -> Result<(), String> {
    let work = &work;
    std::thread::scope(|scope| {
        let other = |number| scope.spawn(move || shield(&mut || work(number)));
        let others: Vec<_> = (1..count).map(other).collect();
        work(0);
        let lost = |_| Err("a thread was lost".to_owned());
        others.into_iter().try_for_each(|other| other.join().unwrap_or_else(lost))
    })
}

/// How often who waits looks before it sleeps.
#[derive(Clone, Copy, Debug)]
struct Patience {
    looks: u32,
    /// How often in a row all looks were in vain.
    in_vain: u32,
    /// So many times it does not look that often.
    sobered: u32,
}

impl Patience {
    /// Of one of so many partitions.
    fn new(partitions: usize, cores: usize) -> Patience {
        let looks = if partitions <= cores { LOOKS } else { LOOKS_IN_TURN };
        Patience { looks, in_vain: 0, sobered: 0 }
    }

    /// How often it looks this time.
    fn next_looks(&mut self) -> u32 {
        match self.sobered.checked_sub(1) {
            Some(left) => {
                self.sobered = left;
                LOOKS_IN_TURN
            }
            None => self.looks,
        }
    }

    /// What came of so many looks.
    fn learn(&mut self, looks: u32, in_vain: bool) {
        if looks < self.looks {
            return;
        }
        self.in_vain = if in_vain { (self.in_vain + 1).min(IN_VAIN_MOST) } else { 0 };
        self.sobered = if in_vain { 1 << self.in_vain } else { 0 };
    }

    /// Waits until `over`: a little awake, then asleep until somebody unparks this thread.
    fn wait(&mut self, over: impl Fn() -> bool) {
        let looks = self.next_looks();
        for _ in 0..looks {
            if over() {
                self.learn(looks, false);
                return;
            }
            std::hint::spin_loop();
        }
        self.learn(looks, true);
        while !over() {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight partitions on two cores took twenty times as long while all of them looked.
    #[test]
    fn who_would_keep_another_from_its_core_sleeps_soon() {
        let looks = |partitions, cores| Patience::new(partitions, cores).next_looks();
        assert_eq!((looks(2, 2), looks(1, 1)), (LOOKS, LOOKS));
        assert!(looks(3, 2) < LOOKS / 100 && looks(8, 2) < LOOKS / 100);
    }

    /// Two runs on two threads each took 17 times as long side by side on two cores as one of them alone.
    #[test]
    fn who_looks_in_vain_looks_ever_less_often() {
        let mut patience = Patience::new(2, 2);
        let mut long = |in_vain| {
            let looks = patience.next_looks();
            patience.learn(looks, in_vain);
            looks == LOOKS
        };
        assert!((0..1_000).all(|_| long(false)), "nothing is in vain");
        let often = (0..10_000).filter(|_| long(true)).count();
        assert!((30..60).contains(&often), "{often}");
        let sober = (0..1_000).position(|_| long(false)).expect("it tries again");
        assert!(sober <= 256 && (0..100).all(|_| long(false)), "once it pays, as ever");
    }
}
