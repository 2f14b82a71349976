//! Prefetches the state that upcoming events will touch: in a large partition, nearly all of it misses the cache.
//!
//! An event names its port, the port its first packet, the packet its path, and the path the egress port. Each must be read before the
//! next is known. So the steps run some events apart, when the data of the previous step has arrived (`long.rs`). Networks of medium size
//! use fewer steps that are closer together (`short.rs`). All prefetches are guesses: events in the meantime may invalidate them, and no result
//! depends on them. (docs/performance.md has the gain, and the sizes from which it pays off.)

mod long;
mod short;

pub(crate) use self::long::LONG_LOOKAHEAD;
pub(crate) use self::short::{SHORT_LOOKAHEAD, ShortPrefetchState};

#[cfg(test)]
mod tests {
    use crate::common::*;
    use crate::hot::PrefetchDistance;
    use pauseframe_units::{Span, Time};

    /// Small networks do not prefetch, so this test turns it on.
    #[test]
    fn prefetching_changes_no_result() {
        let links = ["a", "b", "c", "d"].map(|name| (name, link(10, Span::from_us(1))));
        let topology = star_of(&links);
        let pairs = [("a", "d"), ("b", "d"), ("c", "d"), ("d", "a"), ("b", "a")];
        let flows = pairs.map(|(from, to)| flow(&topology, from, to, 2_000_000));
        for settings in [settings(dctcp(14_600)), lossless(config(), 100_000)] {
            let (_, plain) = run(&topology, &settings, &flows);
            assert!(plain.events > 10_000, "{} events", plain.events);
            for prefetch in [PrefetchDistance::Short, PrefetchDistance::Long] {
                let mut network = build(&topology, &settings, &flows);
                network.last_partition().ctx.hot.prefetch = prefetch;
                let ahead = proceed(&mut network, Time::MAX);
                let seen = (ahead.fingerprint, ahead.events, ahead.now);
                assert_eq!(seen, (plain.fingerprint, plain.events, plain.now), "{prefetch:?}");
                // As a network whose state outgrows the cache in the middle of a run.
                let mut network = build(&topology, &settings, &flows);
                proceed(&mut network, Time(plain.now.0 / 2));
                network.last_partition().ctx.hot.prefetch = prefetch;
                let raised = proceed(&mut network, Time::MAX);
                assert_eq!((raised.fingerprint, raised.events, raised.now), seen, "{prefetch:?}, raised");
            }
        }
    }
}
