//! What hosts receive over time, by workload: application bytes that come for the first time, counted where it happens,
//! an addition a segment. Bytes above a gap count when they come, not when the gap is filled: no interval has more than
//! the links could carry.
//!
//! Nothing says beforehand how long a run will be, so intervals begin short; when all are used, neighbours are put
//! together and intervals are twice as long. No event of the network knows of it.

use pauseframe_units::{Span, Time};

/// Intervals that are kept: a run has between half of them and all.
const INTERVALS: usize = 1000;
const FIRST: Span = Span::from_us(1);

/// Application bytes received by interval and workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throughput {
    every: Span,
    /// The interval of the last bytes ends here.
    until: Time,
    /// By interval and workload, as far as anything was received.
    bytes: Vec<u64>,
    workloads: usize,
}

impl Throughput {
    pub(crate) fn new(workloads: usize) -> Throughput {
        Throughput { every: FIRST, until: Time::ZERO + FIRST, bytes: vec![0; workloads], workloads }
    }

    /// `bytes` of application data have come.
    #[inline(always)]
    pub(crate) fn add(&mut self, workload: u16, bytes: u64, now: Time) {
        if now >= self.until {
            self.go_on_to(now);
        }
        let current = self.bytes.len() - self.workloads;
        self.bytes[current + usize::from(workload)] += bytes;
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn join(&mut self, other: &Throughput) {
        if self.workloads == 0 {
            return;
        }
        let mut other = other.clone();
        while self.every < other.every {
            self.double();
        }
        while other.every < self.every {
            other.double();
        }
        if self.bytes.len() < other.bytes.len() {
            self.bytes.resize(other.bytes.len(), 0);
        }
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(sum, more)| *sum += more);
        self.until = Time((self.bytes.len() / self.workloads) as u64 * self.every.0);
    }

    #[cold]
    fn go_on_to(&mut self, now: Time) {
        let mut number = (now.0 / self.every.0) as usize;
        while number >= INTERVALS {
            self.double();
            number = (now.0 / self.every.0) as usize;
        }
        self.bytes.resize((number + 1) * self.workloads, 0);
        self.until = Time((number as u64 + 1).saturating_mul(self.every.0));
    }

    /// Neighbours become one interval.
    fn double(&mut self) {
        let pair = 2 * self.workloads;
        let merged = self.bytes.chunks(pair).flat_map(|both| {
            let (first, second) = both.split_at(self.workloads);
            first.iter().enumerate().map(|(i, bytes)| bytes + second.get(i).unwrap_or(&0))
        });
        self.bytes = merged.collect();
        self.every = Span(self.every.0 * 2);
    }

    /// Length of the intervals, the first of which begins at 0.
    pub fn every(&self) -> Span {
        self.every
    }

    /// Bytes by workload, interval by interval.
    pub fn intervals(&self) -> impl Iterator<Item = &[u64]> {
        // Without a workload there is nothing to count.
        self.bytes.chunks(self.workloads.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes when, it is in the interval of its time, and there are never too many.
        #[test]
        fn bytes_are_in_the_interval_of_their_time(
            mut arrivals in prop::collection::vec((0u64..1 << 45, 0u16..3, 1u64..10_000), 1..80),
        ) {
            arrivals.sort_unstable();
            let mut counted = Throughput::new(3);
            for (time, workload, bytes) in &arrivals {
                counted.add(*workload, *bytes, Time(*time));
            }
            let every = counted.every().0;
            let found: Vec<Vec<u64>> = counted.intervals().map(<[u64]>::to_vec).collect();
            let last = arrivals.last().unwrap().0;
            prop_assert!(found.len() <= INTERVALS);
            prop_assert_eq!(found.len() as u64, last / every + 1);
            prop_assert!(every == FIRST.0 || last / every >= INTERVALS as u64 / 2);
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
