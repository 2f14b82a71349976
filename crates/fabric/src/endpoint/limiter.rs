//! The rate limiters of NICs: a reaction point (`reaction_point.rs`) and the packets that wait for their turn.

use super::reaction_point::ReactionPoint;
use crate::event::{Event, LimiterId};
use crate::frame::{Cnm, Fifo, PacketId};
use crate::ids::HostId;
use crate::near::Near;
use crate::plan::Plan;
use crate::settings::QcnSettings;
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{BitRate, Bytes, Time};

/// A flow queue of a NIC that has been limited.
#[derive(Debug)]
struct Limiter {
    id: LimiterId,
    point: ReactionPoint,
    /// Packets that wait for their turn at the current rate.
    waiting: Fifo,
    /// The last packet left then, and its bytes on the wire.
    last: (Time, u32),
    /// Valid times of the two events; `Time::MAX` for none.
    release_at: Time,
    timer_at: Time,
    rng: Rng,
}

/// All limiters of a cell.
#[derive(Debug)]
pub(crate) struct Limiters {
    settings: QcnSettings,
    all: Vec<Limiter>,
    seed: u64,
}

/// The number of a limiter in its cell.
pub(super) type LimiterNumber = u32;

impl Limiters {
    pub(super) fn of(plan: &Plan) -> Option<Limiters> {
        let settings = plan.settings.qcn.clone()?;
        Some(Limiters { settings, all: Vec::new(), seed: plan.settings.seed })
    }

    /// A limiter for a flow queue that sends at `line` so far.
    pub(super) fn add(&mut self, id: LimiterId, line: BitRate, now: Time) -> LimiterNumber {
        let number = self.all.len() as LimiterNumber;
        self.all.push(Limiter {
            id,
            point: ReactionPoint::new(line, &self.settings),
            waiting: Fifo::EMPTY,
            last: (now, 0),
            release_at: Time::MAX,
            timer_at: Time::MAX,
            rng: stream(self.seed, "qcn/recovery", id.index()),
        });
        number
    }

    /// What the limiters of a host keep back.
    pub(crate) fn held_back(&self, host: HostId) -> impl Iterator<Item = Fifo> {
        self.all.iter().filter(move |limiter| limiter.id.host == host).map(|limiter| limiter.waiting)
    }

    pub(super) fn current_rate(&self, limiter: LimiterNumber) -> BitRate {
        self.all[limiter as usize].point.current_rate
    }

    /// A CNM has come for a flow queue.
    pub(super) fn on_cnm(&mut self, limiter: LimiterNumber, cnm: &Cnm, near: &mut Near) {
        let state = &mut self.all[limiter as usize];
        state.point.on_cnm(cnm.fb, &self.settings);
        state.timer_at = near.now() + state.point.timer_cycle(&self.settings, &mut state.rng);
        near.schedule(state.timer_at, Event::RateTimer(state.id));
        state.set_release(near);
    }

    /// Keeps a packet back if its flow queue is limited and its time has not come; else it goes on.
    #[cold]
    pub(super) fn holds(&mut self, limiter: LimiterNumber, index: PacketId, near: &mut Near) -> bool {
        let state = &mut self.all[limiter as usize];
        if !state.point.is_limiting() && state.waiting.is_empty() {
            return false;
        }
        state.waiting.push(&mut near.packets, index);
        state.set_release(near);
        true
    }

    /// The first packet of a limited flow queue may go on into the NIC, if this is still its time.
    pub(super) fn release(&mut self, limiter: LimiterNumber, near: &mut Near) -> Option<PacketId> {
        let now = near.now();
        let state = &mut self.all[limiter as usize];
        if state.release_at != now {
            return None;
        }
        state.release_at = Time::MAX;
        let index = state.waiting.pop(&near.packets).expect("a release has a packet");
        let size = u32::from(near.packets[index].size);
        state.last = (now, size + near.hot.gap);
        if state.point.is_limiting() {
            state.point.on_sent(size, &self.settings, &mut state.rng);
        }
        state.set_release(near);
        Some(index)
    }

    /// A cycle of a limiter's timer is over.
    pub(super) fn on_timer(&mut self, limiter: LimiterNumber, near: &mut Near) {
        let now = near.now();
        let state = &mut self.all[limiter as usize];
        if state.timer_at != now {
            return;
        }
        state.timer_at = Time::MAX;
        if state.point.is_limiting() {
            state.point.on_timer(&self.settings);
        }
        if state.point.is_limiting() {
            state.timer_at = now + state.point.timer_cycle(&self.settings, &mut state.rng);
            near.schedule(state.timer_at, Event::RateTimer(state.id));
        }
        state.set_release(near);
    }
}

impl Limiter {
    /// Keeps a `RateRelease` event pending for the first packet that waits.
    fn set_release(&mut self, near: &mut Near) {
        if self.waiting.is_empty() {
            return;
        }
        let (last, bytes) = self.last;
        let at = near.now().max(last + self.point.current_rate.serialise(Bytes(u64::from(bytes))));
        if at != self.release_at {
            self.release_at = at;
            near.schedule(at, Event::RateRelease(self.id));
        }
    }
}
