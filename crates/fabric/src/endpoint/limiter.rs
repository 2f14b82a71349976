//! Rate limiters of NICs: each has a reaction point (`reaction_point.rs`) and a queue of delayed packets.

use super::reaction_point::QcnReactionPoint;
use crate::context::Context;
use crate::event::{Event, QcnRateLimiterId};
use crate::frame::{Cnm, PacketFifo, PacketId};
use crate::ids::HostId;
use crate::plan::NetworkPlan;
use crate::settings::QcnSettings;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_units::{BitRate, Bytes, Time};

/// The rate limiter of one flow queue of a NIC.
#[derive(Debug)]
pub(super) struct QcnRateLimiter {
    id: QcnRateLimiterId,
    point: QcnReactionPoint,
    /// Packets delayed to the current rate.
    waiting: PacketFifo,
    /// Departure time of the last packet, and its bytes on the wire.
    last: (Time, u32),
    /// Times of the pending release and timer events; `Time::MAX` for none.
    release_at: Time,
    timer_at: Time,
    rng: Rng,
}

/// All limiters of a partition.
#[derive(Debug)]
pub(crate) struct QcnRateLimiters {
    settings: QcnSettings,
    all: Vec<QcnRateLimiter>,
    seed: u64,
}

/// Index of a rate limiter in its partition.
pub(super) type LimiterIndex = u32;

impl QcnRateLimiters {
    pub(super) fn from_plan(plan: &NetworkPlan) -> Option<QcnRateLimiters> {
        let settings = plan.settings.qcn.clone()?;
        Some(QcnRateLimiters { settings, all: Vec::new(), seed: plan.settings.seed })
    }

    /// Adds a rate limiter for a flow queue that has sent at line rate so far.
    pub(super) fn add(&mut self, id: QcnRateLimiterId, line: BitRate, now: Time) -> LimiterIndex {
        let number = self.all.len() as LimiterIndex;
        self.all.push(QcnRateLimiter {
            id,
            point: QcnReactionPoint::new(line, &self.settings),
            waiting: PacketFifo::EMPTY,
            last: (now, 0),
            release_at: Time::MAX,
            timer_at: Time::MAX,
            rng: random_stream(self.seed, "qcn/recovery", id.pack()),
        });
        number
    }

    /// The packets that the rate limiters of a host delay.
    pub(crate) fn fifos(&self, host: HostId) -> impl Iterator<Item = PacketFifo> {
        self.all.iter().filter(move |limiter| limiter.id.host == host).map(|limiter| limiter.waiting)
    }

    /// One rate limiter, and the settings of all.
    pub(super) fn limiter_and_settings(
        &mut self,
        limiter: LimiterIndex,
    ) -> (&mut QcnRateLimiter, &QcnSettings) {
        (&mut self.all[limiter as usize], &self.settings)
    }

    pub(super) fn current_rate(&self, limiter: LimiterIndex) -> BitRate {
        self.all[limiter as usize].point.current_rate
    }
}

impl QcnRateLimiter {
    /// Whether it limits a queue of this host.
    pub(super) fn is_at_host(&self, host: HostId) -> bool {
        self.id.host == host
    }

    /// A CNM has arrived for a flow queue.
    pub(super) fn on_cnm(&mut self, cnm: &Cnm, settings: &QcnSettings, ctx: &mut Context) {
        self.point.on_cnm(cnm.fb, settings);
        self.timer_at = ctx.now() + self.point.draw_timer_period(settings, &mut self.rng);
        ctx.schedule_event(self.timer_at, Event::RateTimer(self.id));
        self.schedule_release(ctx);
    }

    /// Delays a packet if its flow queue is rate-limited; false if the packet may be sent now.
    #[cold]
    pub(super) fn hold_if_limited(&mut self, index: PacketId, ctx: &mut Context) -> bool {
        if !self.point.is_below_line_rate() && self.waiting.is_empty() {
            return false;
        }
        self.waiting.push_back(&mut ctx.packets, index);
        self.schedule_release(ctx);
        true
    }

    /// Releases the first delayed packet into the NIC, unless the event is outdated.
    pub(super) fn release_if_due(&mut self, settings: &QcnSettings, ctx: &mut Context) -> Option<PacketId> {
        let now = ctx.now();
        if self.release_at != now {
            return None;
        }
        self.release_at = Time::MAX;
        let index = self.waiting.pop_front(&ctx.packets).expect("a release has a packet");
        let size = u32::from(ctx.packets[index].size);
        self.last = (now, size + ctx.hot.gap);
        if self.point.is_below_line_rate() {
            self.point.on_bytes_sent(size, settings, &mut self.rng);
        }
        self.schedule_release(ctx);
        Some(index)
    }

    /// A cycle of a limiter's timer is over.
    pub(super) fn on_timer_expiry(&mut self, settings: &QcnSettings, ctx: &mut Context) {
        let now = ctx.now();
        if self.timer_at != now {
            return;
        }
        self.timer_at = Time::MAX;
        if self.point.is_below_line_rate() {
            self.point.on_timer_expiry(settings);
        }
        if self.point.is_below_line_rate() {
            self.timer_at = now + self.point.draw_timer_period(settings, &mut self.rng);
            ctx.schedule_event(self.timer_at, Event::RateTimer(self.id));
        }
        self.schedule_release(ctx);
    }

    /// Schedules the `RateRelease` event of the first delayed packet.
    fn schedule_release(&mut self, ctx: &mut Context) {
        if self.waiting.is_empty() {
            return;
        }
        let (last, bytes) = self.last;
        let at = ctx.now().max(last + self.point.current_rate.serialise(Bytes(u64::from(bytes))));
        if at != self.release_at {
            self.release_at = at;
            ctx.schedule_event(at, Event::RateRelease(self.id));
        }
    }
}
