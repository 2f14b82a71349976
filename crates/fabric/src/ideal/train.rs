//! How long a train of packets takes over the links of a path. A train is (count, bytes on the wire) of packets of equal size that are ready together,
//! in the order of sending.

use pauseframe_units::{LineRate, Span};

/// One link of a path.
#[derive(Clone, Copy)]
pub(super) struct PathHop {
    pub(super) rate: LineRate,
    /// From the last bit sent to the packet being in the next queue.
    pub(super) delay: Span,
    /// A packet passes no sooner than this after it was ready, however small it is (`wire_burst`).
    pub(super) hold: Span,
    /// Bits per second of all links at this place that carry packets of the flow at once: `rate`, if it takes one path.
    pub(super) total_rate: u64,
}

impl PathHop {
    /// The better rate and the better delay of two links.
    pub(super) fn elementwise_better(self, other: PathHop) -> PathHop {
        let faster =
            self.rate.serialise(RATE_COMPARISON_BYTES) <= other.rate.serialise(RATE_COMPARISON_BYTES);
        PathHop {
            rate: if faster { self.rate } else { other.rate },
            delay: self.delay.min(other.delay),
            hold: self.hold.min(other.hold),
            total_rate: self.total_rate.max(other.total_rate),
        }
    }

    /// From a packet being ready to its last bit, if it is alone.
    pub(super) fn crossing(&self, size: u32) -> Span {
        self.rate.serialise(size).max(self.hold)
    }

    /// How long all links at this place send a packet train together.
    pub(super) fn load(&self, train: &[(u64, u32)]) -> Span {
        let load = |(count, size): &(u64, u32)| self.rate.serialise(*size).saturating_mul(*count);
        let one_link = train.iter().map(load).fold(Span::ZERO, Span::saturating_add);
        let own = self.rate.rate().0;
        if self.total_rate == own || one_link == Span::MAX {
            return one_link;
        }
        Span((u128::from(one_link.0) * u128::from(own) / u128::from(self.total_rate)) as u64)
    }
}

/// A lower bound of two routes between the same hosts: as many links as the shorter, each the better of both.
pub(super) fn lower_bound(one: Vec<PathHop>, other: Vec<PathHop>) -> Vec<PathHop> {
    let (mut best, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let Some(((last, between), (last_of_longer, before))) = best.split_last_mut().zip(longer.split_last())
    else {
        return best;
    };
    between.iter_mut().zip(before).for_each(|(hop, other)| *hop = hop.elementwise_better(*other));
    *last = last.elementwise_better(*last_of_longer);
    best
}

/// Bytes whose serialisation time is compared to find the faster of two rates.
const RATE_COMPARISON_BYTES: u32 = 1 << 20;

/// Time of a packet train on one path, in order. Packets are ready at once, or paced at the rate of the first link.
pub(super) fn train_transfer_time(path: &[PathHop], train: &[(u64, u32)], is_paced: bool) -> Span {
    // `over[i]`: when link i has sent the train so far.
    let mut over = vec![Span::ZERO; path.len()];
    let [mut released, mut end] = [Span::ZERO; 2];
    for &(count, size) in train {
        // When the first and the last of these packets are ready for the next link. In between it is a convex function of the packet's number.
        let [mut first, mut last] = [released; 2];
        if let Some(hop) = path.first().filter(|_| is_paced) {
            // Pacing is a picosecond early, so that rounding does not make it late.
            let gap = Span(hop.rate.serialise(size).0.saturating_sub(1));
            last = first.saturating_add(gap.saturating_mul(count - 1));
            released = last.saturating_add(gap);
        }
        for (hop, over) in path.iter().zip(&mut over) {
            let each = hop.rate.serialise(size);
            let first_over = first.max(*over).saturating_add(each);
            let in_a_row = first_over.saturating_add(each.saturating_mul(count - 1));
            *over = in_a_row.max(last.saturating_add(each));
            first = first_over.max(first.saturating_add(hop.hold)).saturating_add(hop.delay);
            last = (*over).max(last.saturating_add(hop.hold)).saturating_add(hop.delay);
        }
        end = end.max(last);
    }
    end
}

/// When a packet that leaves at time 0 is ready for the last link.
pub(super) fn unloaded_arrival(path: &[PathHop], size: u32) -> Span {
    arrival_if_sent_at(Span::ZERO, path, size)
}

/// The same of a packet that is ready at time 0 and has to wait for the first link until `begin`.
fn arrival_if_sent_at(begin: Span, path: &[PathHop], size: u32) -> Span {
    let Some((_, [first, between @ ..])) = path.split_last() else { return begin };
    let sent = begin.saturating_add(first.rate.serialise(size)).max(first.hold).saturating_add(first.delay);
    let hop = |sum: Span, hop: &PathHop| sum.saturating_add(hop.crossing(size)).saturating_add(hop.delay);
    between.iter().fold(sent, hop)
}

/// When the first packet of a train is ready for the last link, if a short packet may overtake earlier ones.
pub(super) fn earliest_arrival(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let mut sent = Span::ZERO;
    let mut first = Span::MAX;
    for &(count, size) in train {
        first = first.min(arrival_if_sent_at(sent, path, size));
        sent = sent.saturating_add(path[0].rate.serialise(size).saturating_mul(count));
    }
    first
}

/// Lower bound for packets that leave by one link in order and then take several paths.
pub(super) fn sprayed_transfer_time(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last().filter(|_| path.len() > 1) else {
        return train_transfer_time(path, train, false);
    };
    latest_arrival(path, train)
        .max(earliest_arrival(path, train).saturating_add(last.load(train)))
        .saturating_add(last.delay)
        .max(shared_link_time(path, train))
}

/// When the last link has sent the last packet of each size of a train at the earliest, if each waits for the first link only.
pub(super) fn latest_arrival(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last() else { return Span::ZERO };
    let (mut sent, mut latest) = (Span::ZERO, Span::ZERO);
    for &(count, size) in train {
        let each = path[0].rate.serialise(size);
        let last_leaves = sent.saturating_add(each.saturating_mul(count - 1));
        let arrives = arrival_if_sent_at(last_leaves, path, size);
        latest = latest.max(arrives.saturating_add(last.rate.serialise(size)));
        sent = last_leaves.saturating_add(each);
    }
    latest
}

/// Lower bound for packets that take the ports of their hosts in turn, in whatever order: each packet must cross, too.
pub(super) fn transfer_time_by_ports(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let Some(last) = path.last() else { return Span::ZERO };
    let crossing = |size: u32| unloaded_arrival(path, size).saturating_add(last.crossing(size));
    let alone = train.iter().map(|(_, size)| crossing(*size)).max().unwrap_or_default();
    alone.saturating_add(last.delay).max(shared_link_time(path, train))
}

/// Lower bound for packets in whatever order: at each place of the path the links there must send everything, after some packet has come there and
/// before the rest of the way of some packet.
pub(super) fn shared_link_time(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    let smallest = train.iter().map(|(_, size)| *size).min().unwrap_or_default();
    shared_link_time_cut(path, train, smallest)
}

/// The same if packets may be cut so that the first and the last have `smallest` bytes.
pub(super) fn shared_link_time_cut(path: &[PathHop], train: &[(u64, u32)], smallest: u32) -> Span {
    let alone: Vec<Span> = path.iter().map(|hop| hop.crossing(smallest).saturating_add(hop.delay)).collect();
    let sum = |spans: &[Span]| spans.iter().copied().fold(Span::ZERO, Span::saturating_add);
    let at = |(place, hop): (usize, &PathHop)| {
        let others = sum(&alone[..place]).saturating_add(sum(&alone[place + 1..]));
        hop.load(train).saturating_add(hop.delay).saturating_add(others)
    };
    path.iter().enumerate().map(at).max().unwrap_or_default()
}

/// When some packet of a train can be ready for the last link at the earliest.
pub(super) fn least_unloaded_arrival(path: &[PathHop], train: &[(u64, u32)]) -> Span {
    train.iter().map(|(_, size)| unloaded_arrival(path, *size)).min().unwrap_or_default()
}
