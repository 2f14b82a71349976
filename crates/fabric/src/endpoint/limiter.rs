//! The rate limiters of NICs: a reaction point (`reaction_point.rs`) and the packets that wait for their turn.

use super::reaction_point::ReactionPoint;
use crate::context::Context;
use crate::event::{Event, LimiterId};
use crate::frame::{Cnm, Fifo, PacketId};
use crate::ids::HostId;
use crate::plan::Plan;
use crate::settings::QcnSettings;
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{BitRate, Bytes, Time};

/// A flow queue of a NIC that has been limited.
#[derive(Debug)]
pub(super) struct Limiter {
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

/// All limiters of a partition.
#[derive(Debug)]
pub(crate) struct Limiters {
    settings: QcnSettings,
    all: Vec<Limiter>,
    seed: u64,
}

/// The number of a limiter in its partition.
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

    /// One of them, and what holds for all.
    pub(super) fn get(&mut self, limiter: LimiterNumber) -> (&mut Limiter, &QcnSettings) {
        (&mut self.all[limiter as usize], &self.settings)
    }

    pub(super) fn current_rate(&self, limiter: LimiterNumber) -> BitRate {
        self.all[limiter as usize].point.current_rate
    }
}

impl Limiter {
    /// Whether it limits a queue of this host.
    pub(super) fn is_of(&self, host: HostId) -> bool {
        self.id.host == host
    }

    /// A CNM has come for a flow queue.
    pub(super) fn on_cnm(&mut self, cnm: &Cnm, settings: &QcnSettings, ctx: &mut Context) {
        self.point.on_cnm(cnm.fb, settings);
        self.timer_at = ctx.now() + self.point.timer_cycle(settings, &mut self.rng);
        ctx.schedule(self.timer_at, Event::RateTimer(self.id));
        self.set_release(ctx);
    }

    /// Keeps a packet back if its flow queue is limited and its time has not come; else it goes on.
    #[cold]
    pub(super) fn holds(&mut self, index: PacketId, ctx: &mut Context) -> bool {
        if !self.point.is_limiting() && self.waiting.is_empty() {
            return false;
        }
        self.waiting.push(&mut ctx.packets, index);
        self.set_release(ctx);
        true
    }

    /// The first packet of a limited flow queue may go on into the NIC, if this is still its time.
    pub(super) fn release(&mut self, settings: &QcnSettings, ctx: &mut Context) -> Option<PacketId> {
        let now = ctx.now();
        if self.release_at != now {
            return None;
        }
        self.release_at = Time::MAX;
        let index = self.waiting.pop(&ctx.packets).expect("a release has a packet");
        let size = u32::from(ctx.packets[index].size);
        self.last = (now, size + ctx.hot.gap);
        if self.point.is_limiting() {
            self.point.on_sent(size, settings, &mut self.rng);
        }
        self.set_release(ctx);
        Some(index)
    }

    /// A cycle of a limiter's timer is over.
    pub(super) fn on_timer(&mut self, settings: &QcnSettings, ctx: &mut Context) {
        let now = ctx.now();
        if self.timer_at != now {
            return;
        }
        self.timer_at = Time::MAX;
        if self.point.is_limiting() {
            self.point.on_timer(settings);
        }
        if self.point.is_limiting() {
            self.timer_at = now + self.point.timer_cycle(settings, &mut self.rng);
            ctx.schedule(self.timer_at, Event::RateTimer(self.id));
        }
        self.set_release(ctx);
    }

    /// Keeps a `RateRelease` event pending for the first packet that waits.
    fn set_release(&mut self, ctx: &mut Context) {
        if self.waiting.is_empty() {
            return;
        }
        let (last, bytes) = self.last;
        let at = ctx.now().max(last + self.point.current_rate.serialise(Bytes(u64::from(bytes))));
        if at != self.release_at {
            self.release_at = at;
            ctx.schedule(at, Event::RateRelease(self.id));
        }
    }
}
