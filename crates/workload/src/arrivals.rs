//! When hosts act: independent Poisson processes, and due times for a closed loop.

use super::random::exponential;
use pauseframe_engine::Rng;
use pauseframe_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Hosts (by position) and the time when each acts next; ties in the order of the hosts.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BinaryHeap<Reverse<(Time, usize)>>,
    stop: Time,
}

impl Agenda {
    /// An empty agenda that rejects times at or after `stop`.
    pub(crate) fn until(stop: Time) -> Agenda {
        Agenda { due: BinaryHeap::new(), stop }
    }

    /// Enters `host` at `time`, unless `time` is too late.
    pub(crate) fn enter(&mut self, time: Time, host: usize) {
        if time < self.stop {
            self.due.push(Reverse((time, host)));
        }
    }

    /// The earliest arrival time in the agenda.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((time, _))| *time)
    }

    /// Removes the earliest entry.
    pub(crate) fn take(&mut self) -> Option<(Time, usize)> {
        self.due.pop().map(|Reverse(entry)| entry)
    }
}

/// A Poisson process per host.
#[derive(Debug)]
pub(crate) struct Poisson {
    agenda: Agenda,
    /// Per host: mean seconds between events, and its random stream.
    clocks: Vec<(f64, Rng)>,
}

impl Poisson {
    /// Processes with `rates` (events per second) and one of `streams` per host, within `window`.
    pub(crate) fn new(rates: impl Iterator<Item = f64>, streams: Vec<Rng>, window: Range<Time>) -> Poisson {
        let clocks: Vec<_> = rates.map(|rate| 1.0 / rate).zip(streams).collect();
        let mut poisson = Poisson { agenda: Agenda::until(window.end), clocks };
        for host in 0..poisson.clocks.len() {
            poisson.enter_next(window.start, host);
        }
        poisson
    }

    fn enter_next(&mut self, after: Time, host: usize) {
        let (mean_gap, rng) = &mut self.clocks[host];
        let gap = Span::from_secs_f64(*mean_gap * exponential(rng));
        self.agenda.enter(after.saturating_add(gap), host);
    }

    /// The time of the next event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Removes the next event: its time and host.
    pub(crate) fn take(&mut self) -> Option<(Time, usize)> {
        let (time, host) = self.agenda.take()?;
        self.enter_next(time, host);
        Some((time, host))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, rng};
    use super::*;

    fn times(rates: &[f64], names: &[&str], window: Range<Time>) -> Vec<(Time, usize)> {
        let streams = names.iter().map(|name| rng(name)).collect();
        let mut poisson = Poisson::new(rates.iter().copied(), streams, window);
        std::iter::from_fn(|| poisson.take()).collect()
    }

    #[test]
    fn a_host_acts_at_its_rate_and_within_the_window() {
        let window = Time::ZERO + Span::from_ms(5)..Time::ZERO + Span::from_ms(10_005);
        let all = times(&[1000.0, 3000.0], &["a", "b"], window.clone());
        for (host, rate) in [(0, 1000.0), (1, 3000.0)] {
            let count = all.iter().filter(|(_, h)| *h == host).count() as f64;
            assert_within(count, rate * 10.0, 4.0 * (rate * 10.0f64).sqrt());
        }
        assert!(all.is_sorted() && all.iter().all(|(time, _)| window.contains(time)));
    }

    #[test]
    fn a_further_host_moves_no_event_of_the_others() {
        let window = Time::ZERO..Time::ZERO + Span::from_ms(100);
        let two = times(&[5000.0, 5000.0], &["a", "b"], window.clone());
        let three = times(&[5000.0, 5000.0, 9000.0], &["a", "b", "c"], window);
        assert!(three.len() > two.len());
        assert_eq!(two, three.into_iter().filter(|(_, host)| *host < 2).collect::<Vec<_>>());
    }

    #[test]
    fn rate_zero_never_acts() {
        assert_eq!(times(&[0.0], &["a"], Time::ZERO..Time::MAX), []);
    }
}
