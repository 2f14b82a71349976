//! A client that asks a server again and again, one request at a time (repro: 20 KB responses in sequence on a persistent
//! connection beside long flows).
//!
//! A request is a flow with a reply. On a persistent connection the window, RTT estimate and everything else of TCP go on from
//! request to request; otherwise each has a connection of its own. Left out: pipelining.

use super::Maker;
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, Kept, Workload};
use pauseframe_units::{Bytes, Span, Time};

/// One request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) request: Bytes,
    pub(super) response: Bytes,
    /// From the response to the next request.
    pub(super) pause: Span,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) exchange: Exchange,
    pub(super) count: u32,
    pub(super) persistent: bool,
}

/// The workload.
#[derive(Debug)]
pub(super) struct Requests {
    series: Series,
    template: FlowSpec,
    /// Requests that have gone out.
    asked: u32,
    next: Option<Time>,
}

impl Requests {
    pub(super) fn new(series: Series, client: &str, server: &str, start: Time, maker: &Maker) -> Requests {
        let host = |name| maker.context.topology.find(name).expect("resolve has checked the host's name");
        let flow = maker.flow(host(client), host(server), series.exchange.request, start);
        let template = FlowSpec { reply: series.exchange.response.0, ..flow };
        Requests { next: (series.count > 0).then_some(start), series, template, asked: 0 }
    }
}

impl Workload for Requests {
    fn next_start(&self) -> Option<Time> {
        self.next
    }

    fn next_flow(&mut self) -> FlowSpec {
        let start = self.next.take().expect("asked for a flow only while next_start gives a time");
        let first = self.asked == 0;
        self.asked += 1;
        let last = self.asked == self.series.count;
        let kept = self.series.persistent.then_some(Kept { number: 0, first, last });
        FlowSpec { start, kept, ..self.template }
    }

    /// The next request follows a response. A client that was refused or gave up asks no more.
    fn on_finished(&mut self, flow: &FlowRecord, now: Time) {
        if self.asked < self.series.count && flow.status == FlowStatus::Finished {
            self.next = Some(now + self.series.exchange.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{ended, make, racks};
    use super::*;
    use crate::spec::WorkloadKind;

    fn requests(persistent: bool) -> WorkloadKind {
        WorkloadKind::Requests {
            client: "h1".into(),
            server: "h0".into(),
            request: Bytes(100),
            response: Bytes::kb(20),
            count: 3,
            pause: Span::from_us(5),
            persistent,
            start: Span::from_us(10),
        }
    }

    #[test]
    fn each_request_waits_for_the_response_before_it() {
        let topology = racks(1, 2);
        let mut workload = make(requests(true), &topology);
        let mut now = Time::ZERO + Span::from_us(10);
        for i in 0..3 {
            assert_eq!(workload.next_start(), Some(now), "request {i}");
            let flow = workload.next_flow();
            assert_eq!((flow.size, flow.reply), (100, 20_000));
            assert_eq!(flow.kept, Some(Kept { number: 0, first: i == 0, last: i == 2 }));
            assert_eq!(workload.next_start(), None, "one at a time");
            let end = now + Span::from_us(100);
            workload.on_finished(&ended(flow, FlowStatus::Finished, end, 0), end);
            now = end + Span::from_us(5);
        }
        assert_eq!(workload.next_start(), None);
    }

    #[test]
    fn connections_of_their_own_are_not_kept_and_a_failure_ends_the_series() {
        let topology = racks(1, 2);
        let mut workload = make(requests(false), &topology);
        let flow = workload.next_flow();
        assert_eq!(flow.kept, None);
        workload.on_finished(&ended(flow, FlowStatus::Failed, flow.start, 6), flow.start);
        assert_eq!(workload.next_start(), None);
    }
}
