//! Several hosts to one: the first `senders` hosts other than the receiver start together or at random times.

use super::context::{Context, SIZES, TIMES, receiver, senders};
use super::maker::{Listed, Maker, Source, at};
use pauseframe_engine::Rng;
use pauseframe_fabric::Workload;
use pauseframe_schema::table;
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, Span};
use std::ops::Range;

table! {
    /// Several hosts send to one, at once or within `spread`; by default all other hosts to the first
    pub struct NToOne {
        /// Number of senders: the first hosts other than the receiver
        senders: u32 = by(senders, context);
        /// Name of the receiver
        receiver: String = by(receiver, context);
        /// Size of each flow
        size: Bytes = required_in(SIZES);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// Flows start at random within this time after start; 0 s: all at once
        spread: Span = or_in(Span::ZERO, TIMES);
    }
    pub fn try_read(t, context: &Context);
}

impl Source for NToOne {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let starts = self.start..self.start + self.spread;
        Box::new(build(self.senders, &self.receiver, self.size, starts, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn planned_flows(&self, _: &Topology, _: Option<Span>) -> Option<u64> {
        Some(u64::from(self.senders))
    }

    fn at_once(&self, _: u64) -> u64 {
        u64::from(self.senders)
    }
}

/// The starts are uniform over `starts`; an empty range starts all at its beginning.
fn build(senders: u32, receiver: &str, size: Bytes, starts: Range<Span>, maker: &Maker) -> Listed {
    let receiver = maker.context.topology.find(receiver).expect("resolve has checked the receiver's name");
    let sources = maker.context.topology.hosts().filter(|host| *host != receiver).take(senders as usize);
    let mut rng = maker.stream("starts", 0);
    let flows: Vec<_> =
        sources.map(|source| maker.flow(source, receiver, size, at(draw(&starts, &mut rng)))).collect();
    assert_eq!(flows.len(), senders as usize, "n_to_one: more senders than other hosts");
    Listed::new(flows)
}

fn draw(starts: &Range<Span>, rng: &mut Rng) -> Span {
    let spread = starts.end.0 - starts.start.0;
    if spread == 0 { starts.start } else { starts.start + Span(rng.uniform_below(spread)) }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{drain, make, racks};
    use super::*;
    use crate::WorkloadKind;

    #[test]
    fn the_first_other_hosts_send_to_the_receiver() {
        let topology = racks(1, 6);
        let kind = WorkloadKind::NToOne(NToOne {
            senders: 3,
            receiver: "h1".into(),
            size: Bytes::kb(1),
            start: Span::from_us(7),
            spread: Span::ZERO,
        });
        let flows = drain(&mut *make(kind, &topology));
        let names: Vec<_> = flows.iter().map(|flow| topology.nodes()[flow.source].name.as_str()).collect();
        assert_eq!(names, ["h0", "h2", "h3"]);
        assert!(flows.iter().all(|f| Some(f.destination) == topology.find("h1") && f.size == 1000));
        assert!(flows.iter().all(|f| f.start == at(Span::from_us(7))));
    }

    #[test]
    fn spread_starts_are_uniform_over_their_time_and_each_host_sends_once() {
        let topology = racks(1, 401);
        let kind = WorkloadKind::NToOne(NToOne {
            senders: 400,
            receiver: "h0".into(),
            size: Bytes::kb(1),
            start: Span::from_us(100),
            spread: Span::from_us(50),
        });
        let flows = drain(&mut *make(kind, &topology));
        let mut sources: Vec<_> = flows.iter().map(|flow| flow.source).collect();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!(sources.len(), 400);
        let us: Vec<f64> = flows.iter().map(|flow| flow.start.0 as f64 / 1e6).collect();
        assert!(us.is_sorted() && us[0] >= 100.0 && us[399] < 150.0, "{} to {}", us[0], us[399]);
        // Kolmogorov distance from the uniform distribution, 99.9 % quantile for 400 draws.
        let far = us.iter().enumerate().map(|(i, at)| ((at - 100.0) / 50.0 - i as f64 / 400.0).abs());
        assert!(far.fold(0.0, f64::max) < 1.95 / 20.0);
    }
}
