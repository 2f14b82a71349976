//! CoDel (RFC 8289) with the arithmetic of Linux (`include/net/codel_impl.h`): it drops or marks at departure while even the smallest sojourn time of
//! an interval exceeds the target.
//!
//! The inverse square root of the control law comes from one Newton step a drop, on 16 bits: the second gap is interval / 2 instead of
//! interval / sqrt(2), and from the seventh drop on the error is below 1 %. A test compares.

use super::{Departure, Discipline, TimedDiscipline, TimedPacket};
use crate::frame::{PacketFifo, PacketId, PacketPool};
use crate::settings::CodelSettings;
use pauseframe_units::{Span, Time};

/// Intervals after which a drop rate is forgotten.
const MEMORY: u64 = 16;

/// CoDel's state for one queue or flow (`struct codel_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlLaw {
    /// When the sojourn time will have exceeded the target for an interval; `None`: it is below.
    first_above: Option<Time>,
    is_dropping: bool,
    drop_next: Option<Time>,
    /// Drops since the dropping state was entered.
    count: u32,
    last_count: u32,
    /// 1 / sqrt(count), times 2^16.
    inverse_sqrt: u16,
}

/// A packet that CoDel judges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    pub(crate) index: PacketId,
    pub(crate) size: u32,
    pub(crate) sojourn: Span,
    pub(crate) is_ect: bool,
    /// Bytes in the queue behind it.
    pub(crate) behind: u64,
}

impl ControlLaw {
    /// Takes packets until one may leave, and gives the others to `drop` (`codel_dequeue`). Also returns whether that packet gets CE. A packet with at
    /// most `mtu` bytes behind it is never dropped.
    pub(crate) fn next_packet(
        &mut self,
        codel: &CodelSettings,
        (mtu, now): (u32, Time),
        mut take: impl FnMut() -> Option<Judged>,
        mut drop: impl FnMut(PacketId),
    ) -> Option<(Judged, bool)> {
        let Some(mut packet) = take() else {
            self.is_dropping = false;
            return None;
        };
        let mut mark = false;
        let mut is_late = self.is_late(codel, mtu, now, Some(&packet));
        if !self.is_dropping && is_late {
            mark = codel.ecn && packet.is_ect;
            self.is_dropping = true;
            if mark {
                self.begin_dropping(codel.interval, now);
            } else {
                drop(packet.index);
                let next = take();
                self.is_late(codel, mtu, now, next.as_ref());
                self.begin_dropping(codel.interval, now);
                packet = next?;
            }
        } else {
            self.is_dropping &= is_late;
            while self.is_dropping && self.drop_next.is_some_and(|due| due <= now) {
                self.count = self.count.wrapping_add(1);
                self.refine_inverse_sqrt();
                if codel.ecn && packet.is_ect {
                    mark = true;
                    self.schedule_drop(codel.interval, self.drop_next.unwrap_or(now));
                    break;
                }
                drop(packet.index);
                let next = take();
                is_late = self.is_late(codel, mtu, now, next.as_ref());
                self.is_dropping = is_late;
                if is_late {
                    self.schedule_drop(codel.interval, self.drop_next.unwrap_or(now));
                }
                packet = next?;
            }
        }
        mark |= packet.is_ect && codel.ce_threshold.is_some_and(|threshold| packet.sojourn > threshold);
        Some((packet, mark))
    }

    /// Whether the sojourn time has exceeded the target for an interval (`codel_should_drop`).
    fn is_late(&mut self, codel: &CodelSettings, mtu: u32, now: Time, packet: Option<&Judged>) -> bool {
        if !packet.is_some_and(|packet| packet.sojourn >= codel.target && packet.behind > u64::from(mtu)) {
            self.first_above = None;
            return false;
        }
        let due = *self.first_above.get_or_insert(now + codel.interval);
        now > due
    }

    /// Enters the dropping state: at the last drop rate if that is recent.
    fn begin_dropping(&mut self, interval: Span, now: Time) {
        let recent = self.drop_next.is_some_and(|last| now < last + Span(MEMORY * interval.0));
        let since_last = self.count.wrapping_sub(self.last_count);
        if since_last > 1 && recent {
            self.count = since_last;
            self.refine_inverse_sqrt();
        } else {
            self.count = 1;
            self.inverse_sqrt = u16::MAX;
        }
        self.last_count = self.count;
        self.schedule_drop(interval, now);
    }

    /// `codel_control_law`: the next drop comes interval / sqrt(count) after `last`.
    fn schedule_drop(&mut self, interval: Span, last: Time) {
        self.drop_next = Some(last + Span(interval.0.saturating_mul(u64::from(self.inverse_sqrt)) >> 16));
    }

    /// `codel_Newton_step`: x (3 - count x^2) / 2 in fixed point.
    fn refine_inverse_sqrt(&mut self) {
        let inverse = u64::from(self.inverse_sqrt) << 16;
        let squared = (inverse * inverse) >> 32;
        let rest = (3_u64 << 32).wrapping_sub(u64::from(self.count) * squared) >> 2;
        self.inverse_sqrt = (rest.wrapping_mul(inverse) >> 31 >> 16) as u16;
    }

    /// A full queue has dropped packets: as if CoDel had (`fq_codel_drop`).
    pub(crate) fn count_forced_drops(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }
}

pub(super) struct Codel;

impl Discipline for Codel {
    const RANKED: bool = true;
    const TIMED: bool = true;

    fn choose_next(_queue: &mut PacketFifo, _packets: &mut PacketPool) {}

    fn evict_for(_queue: &mut PacketFifo, _packets: &mut PacketPool, _newcomer: PacketId) -> Option<PacketId> {
        None
    }
}

/// A queue with CoDel. Its packets stay in the queue of the port.
#[derive(Debug)]
pub(crate) struct CodelQueue {
    settings: CodelSettings,
    mtu: u32,
    law: ControlLaw,
    chosen: Option<PacketId>,
}

impl CodelQueue {
    pub(super) fn new(settings: CodelSettings, mtu: u32) -> CodelQueue {
        CodelQueue { settings, mtu, law: ControlLaw::default(), chosen: None }
    }
}

impl TimedDiscipline for CodelQueue {
    fn choose_next(&mut self, leaving: &mut Departure) {
        if self.chosen.is_some() {
            return;
        }
        let Departure { queue, packets, decision, .. } = leaving;
        let (now, mut backlog) = (leaving.now, leaving.backlog);
        let take = || {
            let index = queue.pop_front(packets)?;
            let TimedPacket { size, sojourn, is_ect } = TimedPacket::of(&packets[index], now);
            backlog -= u64::from(size);
            Some(Judged { index, size, sojourn, is_ect, behind: backlog })
        };
        let chosen = self.law.next_packet(&self.settings, (self.mtu, now), take, |index| decision.dropped.push(index));
        if let Some((packet, mark)) = chosen {
            leaving.choose(packet.index, packet.sojourn, mark);
        }
        self.chosen = chosen.map(|(packet, _)| packet.index);
    }

    fn on_departure(&mut self) {
        self.chosen = None;
    }

    fn evict(&mut self, _leaving: &mut Departure) {}

    fn fifos(&self) -> Vec<PacketFifo> {
        Vec::new()
    }

    fn reset(&mut self, _queue: &mut PacketFifo, _packets: &mut PacketPool) {
        (self.law, self.chosen) = (ControlLaw::default(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueDiscipline;

    const MTU: u32 = 1518;
    const MS: u64 = 1_000_000_000;

    fn linux() -> CodelSettings {
        CodelSettings::of(QueueDiscipline::Codel)
    }

    /// A queue in which a packet leaves at every given ms after it waited `sojourn` ms there: the ms of drops and of marks.
    fn departures(law: &mut ControlLaw, codel: &CodelSettings, at: std::ops::Range<u64>, sojourn: u64) -> [Vec<u64>; 2] {
        let mut seen = [Vec::new(), Vec::new()];
        for ms in at {
            let packet = Judged { index: PacketId(0), size: MTU, sojourn: Span(sojourn * MS), is_ect: true, behind: 9 * u64::from(MTU) };
            let [drops, marks] = &mut seen;
            let sent = law.next_packet(codel, (MTU, Time(ms * MS)), || Some(packet), |_| drops.push(ms));
            marks.extend(sent.filter(|(_, mark)| *mark).map(|_| ms));
        }
        seen
    }

    /// Worked out by a model of `codel_impl.h` in Python. The first drop comes an interval after the queue went above the target.
    #[test]
    fn drops_follow_the_control_law() {
        let golden = [101, 201, 251, 308, 357, 401, 441, 479, 514, 547, 578, 609, 637, 665, 692, 717, 742, 767, 790, 813];
        assert_eq!(departures(&mut ControlLaw::default(), &linux(), 0..814, 6), [golden.to_vec(), vec![]]);
        // The target itself is not below it.
        assert_eq!(departures(&mut ControlLaw::default(), &linux(), 0..814, 5), [golden.to_vec(), vec![]]);
        let marking = CodelSettings { ecn: true, ..linux() };
        assert_eq!(departures(&mut ControlLaw::default(), &marking, 0..814, 6), [vec![], golden.to_vec()]);
    }

    /// RFC 8289 §3.3: interval / sqrt(count). Newton's steps come to it from 0.5 at the second drop.
    #[test]
    fn newton_steps_approach_the_inverse_square_root() {
        let mut law = ControlLaw { count: 1, inverse_sqrt: u16::MAX, ..ControlLaw::default() };
        for count in 2..5000_u32 {
            law.count = count;
            law.refine_inverse_sqrt();
            let ratio = f64::from(law.inverse_sqrt) / 65_536.0 * f64::from(count).sqrt();
            let bound = if count == 2 { 0.30 } else if count < 7 { 0.03 } else { 0.01 };
            assert!((ratio - 1.0).abs() < bound, "{count}: {ratio}");
        }
    }

    #[test]
    fn what_is_short_or_below_the_target_is_never_dropped() {
        assert_eq!(departures(&mut ControlLaw::default(), &linux(), 0..1000, 4), [[0_u64; 0]; 2]);
        let mut law = ControlLaw::default();
        for ms in 0..1000 {
            let last = Judged { index: PacketId(0), size: MTU, sojourn: Span(50 * MS), is_ect: false, behind: u64::from(MTU) };
            assert_eq!(law.next_packet(&linux(), (MTU, Time(ms * MS)), || Some(last), |_| panic!()), Some((last, false)));
        }
    }

    /// Above the target again within 16 intervals, the rate of drops begins where it was; later it starts from 1.
    #[test]
    fn it_remembers_its_rate_for_16_intervals() {
        for (pause, gaps) in [(10, [50, 44]), (1500, [100, 50])] {
            let mut law = ControlLaw::default();
            departures(&mut law, &linux(), 0..400, 6);
            assert_eq!(law.count, 5);
            departures(&mut law, &linux(), 400..400 + pause, 4);
            let back = 400 + pause;
            let [drops, _] = departures(&mut law, &linux(), back..back + 300, 6);
            assert_eq!(drops[0], back + 101);
            let between: Vec<u64> = drops.windows(2).take(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(between, gaps, "after {pause} ms");
        }
    }

    #[test]
    fn the_threshold_marks_whatever_the_state() {
        let settings = CodelSettings { ce_threshold: Some(Span(MS)), ..linux() };
        assert_eq!(departures(&mut ControlLaw::default(), &settings, 0..3, 2), [vec![], vec![0, 1, 2]]);
        assert_eq!(departures(&mut ControlLaw::default(), &settings, 0..3, 1), [[0_u64; 0]; 2]);
    }
}
