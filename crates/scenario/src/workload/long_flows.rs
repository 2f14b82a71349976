//! Flows without an end of their own: they send all that the network takes, from their start to their stop.

use super::flow_list::node_by_name;
use super::{Listed, Maker, at};
use crate::spec::LongFlowEntry;
use pauseframe_fabric::FlowSpec;
use pauseframe_units::Bytes;

pub(super) fn build(entries: &[LongFlowEntry], maker: &Maker) -> Listed {
    let node = node_by_name(maker);
    let flow = |entry: &LongFlowEntry| {
        let endless = maker.flow(node(&entry.src), node(&entry.dst), Bytes(u64::MAX), at(entry.start));
        FlowSpec { stop: entry.stop.map(at), ..endless }
    };
    Listed::new(entries.iter().map(flow).collect())
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{drain, make, racks};
    use super::*;
    use crate::spec::WorkloadKind;
    use pauseframe_units::Span;

    #[test]
    fn they_come_in_order_with_their_stops() {
        let topology = racks(1, 3);
        let entry = |src: &str, start, stop: Option<u64>| LongFlowEntry {
            src: src.into(),
            dst: "h2".into(),
            start: Span::from_us(start),
            stop: stop.map(Span::from_us),
        };
        let flows = vec![entry("h0", 20, None), entry("h1", 10, Some(30))];
        let flows = drain(&mut *make(WorkloadKind::LongFlows { flows }, &topology));
        assert_eq!(
            flows.iter().map(|flow| flow.stop).collect::<Vec<_>>(),
            [Some(at(Span::from_us(30))), None]
        );
        assert_eq!(Some(flows[0].source), topology.find("h1"));
        assert!(flows.iter().all(|flow| flow.size == u64::MAX));
    }
}
