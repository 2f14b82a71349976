//! Received application bytes over time, by workload, counted on first arrival. Bytes above a gap count when they arrive, not when the gap is filled,
//! so no interval exceeds the capacity of the links.
//!
//! The length of a run is unknown, so intervals start short. When all are used, neighbours are merged and intervals become twice as long. It needs no
//! events.

use pauseframe_units::{Span, Time};

/// Maximum number of intervals; a long run has between half of them and all.
const MAX_INTERVALS: usize = 1000;
const INITIAL_INTERVAL: Span = Span::from_us(1);

/// Application bytes received by interval and workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThroughputSeries {
    every: Span,
    /// End of the current interval, on the clock of those that count.
    until: Time,
    /// What that clock lacks.
    clock_offset: Span,
    /// Bytes by interval and workload, up to the last interval with any.
    bytes: Vec<u64>,
    workloads: usize,
}

impl ThroughputSeries {
    pub(crate) fn new(workloads: usize) -> ThroughputSeries {
        ThroughputSeries {
            every: INITIAL_INTERVAL,
            until: Time::ZERO + INITIAL_INTERVAL,
            clock_offset: Span::ZERO,
            bytes: vec![0; workloads],
            workloads,
        }
    }

    /// Counts `bytes` of application data at `now`.
    #[inline(always)]
    pub(crate) fn add_goodput(&mut self, workload: u16, bytes: u64, now: Time) {
        if now >= self.until {
            self.append_intervals_until(now);
        }
        let current = self.bytes.len() - self.workloads;
        self.bytes[current + usize::from(workload)] += bytes;
    }

    /// From now on the clock lacks so much.
    pub(crate) fn set_clock_offset(&mut self, offset: Span) {
        (self.clock_offset, self.until) = (offset, Time::ZERO);
    }

    /// Adds the counts of another partition.
    pub(crate) fn merge(&mut self, other: &ThroughputSeries) {
        if self.workloads == 0 {
            return;
        }
        let mut other = other.clone();
        while self.every < other.every {
            self.double_interval_length();
        }
        while other.every < self.every {
            other.double_interval_length();
        }
        if self.bytes.len() < other.bytes.len() {
            self.bytes.resize(other.bytes.len(), 0);
        }
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(sum, more)| *sum += more);
        self.until = Time((self.bytes.len() / self.workloads) as u64 * self.every.0);
    }

    #[cold]
    fn append_intervals_until(&mut self, now: Time) {
        let now = now + self.clock_offset;
        let mut number = (now.0 / self.every.0) as usize;
        while number >= MAX_INTERVALS {
            self.double_interval_length();
            number = (now.0 / self.every.0) as usize;
        }
        self.bytes.resize((number + 1) * self.workloads, 0);
        let until = Time((number as u64 + 1).saturating_mul(self.every.0));
        self.until = Time(until.0.saturating_sub(self.clock_offset.0));
    }

    /// Merges neighbouring intervals and doubles the interval length.
    fn double_interval_length(&mut self) {
        let pair = 2 * self.workloads;
        let merged = self.bytes.chunks(pair).flat_map(|both| {
            let (first, second) = both.split_at(self.workloads);
            first.iter().enumerate().map(|(i, bytes)| bytes + second.get(i).unwrap_or(&0))
        });
        self.bytes = merged.collect();
        self.every = Span(self.every.0 * 2);
    }

    /// Length of an interval; the first one starts at 0.
    pub fn interval_length(&self) -> Span {
        self.every
    }

    /// Bytes by workload, interval by interval.
    pub fn goodput_by_interval(&self) -> impl Iterator<Item = &[u64]> {
        // A network without workloads has no bytes.
        self.bytes.chunks(self.workloads.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Bytes are counted in the interval of their time, and the number of intervals stays bounded.
        #[test]
        fn bytes_are_in_the_interval_of_their_time(
            mut arrivals in prop::collection::vec((0u64..1 << 45, 0u16..3, 1u64..10_000), 1..80),
        ) {
            arrivals.sort_unstable();
            let mut counted = ThroughputSeries::new(3);
            for (time, workload, bytes) in &arrivals {
                counted.add_goodput(*workload, *bytes, Time(*time));
            }
            let every = counted.interval_length().0;
            let found: Vec<Vec<u64>> = counted.goodput_by_interval().map(<[u64]>::to_vec).collect();
            let last = arrivals.last().unwrap().0;
            prop_assert!(found.len() <= MAX_INTERVALS);
            prop_assert_eq!(found.len() as u64, last / every + 1);
            prop_assert!(every == INITIAL_INTERVAL.0 || last / every >= MAX_INTERVALS as u64 / 2);
            for (number, row) in found.iter().enumerate() {
                for workload in 0..3 {
                    let here = |d: &&(u64, u16, u64)| d.0 / every == number as u64 && d.1 == workload;
                    let expected: u64 = arrivals.iter().filter(here).map(|d| d.2).sum();
                    prop_assert_eq!(row[usize::from(workload)], expected);
                }
            }
        }
    }
}
