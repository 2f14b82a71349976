//! Long flows: flows of unlimited size, which send as fast as the network allows from their start to their stop.

use super::flow_list::node_by_name;
use super::context::{Context, TIME_MAX, TIMES, host};
use super::maker::{Listed, Maker, Source, at};
use pauseframe_fabric::{FlowSpec, Workload};
use pauseframe_schema::table;
use pauseframe_units::{Bytes, Span};

table! {
    /// Flows of unlimited size that send from their start to their stop
    pub struct LongFlows {
        /// Flows of unlimited size
        flows: Vec<LongFlowEntry> = try_rows("required", |t| LongFlowEntry::read(t, context)) => {
            let given = t.has("flows") || t.is_documenting();
            t.check(given, "flows", || "is required: list of tables".to_owned(), "");
            let empty = flows.as_ref().is_some_and(Vec::is_empty);
            t.check(!empty, "flows", || "there is no flow in it".to_owned(), "give each flow a row");
        };
    }
    pub fn try_read(t, context: &Context);
}

table! {
    /// A flow of unlimited size
    pub struct LongFlowEntry as "LongFlow" {
        /// Sending host
        src: String = try_by(host, context);
        /// Receiving host
        dst: String = try_by(host, context) => {
            t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "name another host");
        };
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// When the flow stops sending
        stop: Option<Span> = optional_in(Span(1)..=TIME_MAX, "none: the end of the run") => {
            let message = || format!("start ({start}) is not before it");
            t.check(stop.is_none_or(|stop| start < stop), "stop", message, "");
            let message = || "this flow has no end and neither has the run".to_owned();
            let hint = "set stop here, or the stop of the scenario, as in stop = \"50 ms\"";
            t.check(stop.is_some() || context.stop.is_some(), "stop", message, hint);
        };
    }
    pub fn try_read(t, context: &Context);
}

impl Source for LongFlows {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(build(&self.flows, maker))
    }

    fn starts(&self) -> Vec<Span> {
        self.flows.iter().map(|flow| flow.start).collect()
    }

    fn at_once(&self, _: u64) -> u64 {
        self.flows.len() as u64
    }
}

fn build(entries: &[LongFlowEntry], maker: &Maker) -> Listed {
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
    use crate::WorkloadKind;
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
        let flows = drain(&mut *make(WorkloadKind::LongFlows(LongFlows { flows }), &topology));
        assert_eq!(
            flows.iter().map(|flow| flow.stop).collect::<Vec<_>>(),
            [Some(at(Span::from_us(30))), None]
        );
        assert_eq!(Some(flows[0].source), topology.find("h1"));
        assert!(flows.iter().all(|flow| flow.size == u64::MAX));
    }
}
