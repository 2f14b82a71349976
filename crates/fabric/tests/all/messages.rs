//! Messages on kept connections: in order, either way, told when they are there and when they have gone.

use crate::common::*;
use pauseframe_fabric::{ApplicationMessage, FlowSpec, FlowStatus, Network, Workload};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_transport::TcpConfig;
use pauseframe_units::{NodeId, Span, Time};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// Sends what it is given at the start, and an answer of 1460 bytes to every message of host a that has come.
#[derive(Debug)]
pub(crate) struct Echo {
    a: NodeId,
    b: NodeId,
    due: VecDeque<ApplicationMessage>,
    begun: bool,
    pub(crate) delivered: Vec<(u32, Time)>,
    pub(crate) sent: Vec<(u32, Time)>,
    left: usize,
}

fn message(from: NodeId, to: NodeId, bytes: u64, token: u32) -> ApplicationMessage {
    ApplicationMessage { connection: 0, from, to, bytes, token, notify: true, transport: 0 }
}

impl Workload for Echo {
    fn next_start_time(&self) -> Option<Time> {
        (!self.begun).then_some(Time::ZERO)
    }
    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("it has messages only")
    }
    fn on_start_time(&mut self, _now: Time) {
        self.begun = true;
    }
    fn next_message(&mut self) -> Option<ApplicationMessage> {
        if self.begun { self.due.pop_front() } else { None }
    }
    fn on_message_delivered(&mut self, token: u32, now: Time) {
        self.delivered.push((token, now));
        if token < 100 {
            let to = self.a;
            self.due.push_back(message(self.b, to, MSS, token + 100));
        } else {
            self.left -= 1;
        }
    }
    fn on_message_sent(&mut self, token: u32, now: Time) {
        self.sent.push((token, now));
    }
    fn has_sent_all(&self) -> bool {
        self.left == 0 && self.sent.len() == self.delivered.len()
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

pub(crate) fn run_echo(topology: &Topology, sizes: &[u64], config: TcpConfig) -> (Network, Time) {
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let due = (0..).zip(sizes).map(|(token, &bytes)| message(hosts[0], hosts[1], bytes, token)).collect();
    let echo = Echo {
        a: hosts[0],
        b: hosts[1],
        due,
        begun: false,
        delivered: Vec::new(),
        sent: Vec::new(),
        left: sizes.len(),
    };
    let routes = Arc::new(NextHops::shortest(topology).unwrap());
    let (topology, settings) = (Arc::new(topology.clone()), Arc::new(settings(config)));
    let mut network = Network::new(topology, routes, settings, vec![Box::new(echo)], true);
    let ending = proceed(&mut network, Time::ZERO + Span::from_secs(1));
    (network, ending.now)
}

pub(crate) fn told_by(network: &Network) -> &Echo {
    network.workload(0).as_any().unwrap().downcast_ref::<Echo>().unwrap()
}

#[test]
fn messages_come_in_order_on_one_connection_and_are_answered() {
    let topology = star(3, link(10, Span::from_us(1))).unwrap();
    let (mut network, end) = run_echo(&topology, &[MSS, 2 * MSS, MSS], config());
    let told = told_by(&network);
    // A full frame takes 1.2304 us on each of two links of 1 us; four frames follow each other.
    let frame = |n: u64| Time::ZERO + Span::from_us(2) + Span(1_230_400 * (n + 1));
    let tokens = |list: &[(u32, Time)], from: u32| -> Vec<(u32, Time)> {
        list.iter().copied().filter(|(token, _)| (*token >= 100) == (from == 1)).collect()
    };
    assert_eq!(
        tokens(&told.delivered, 0),
        [1, 3, 4].map(frame).into_iter().zip(0..).map(|(at, token)| (token, at)).collect::<Vec<_>>()
    );
    // Answers leave at that very time, on links that nobody else uses that way.
    let back = Span::from_us(2) + Span(2 * 1_230_400);
    let answers: Vec<(u32, Time)> = tokens(&told.delivered, 1);
    assert_eq!(answers[0], (100, frame(1) + back));
    assert_eq!(answers.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [100, 101, 102]);
    assert_eq!(told.sent.len(), 6);
    // The sender learns of all three with the first ACK, which does not come before the second frame is there.
    assert!(tokens(&told.sent, 0).iter().all(|(_, at)| *at > frame(2) && *at < frame(4) + Span::from_us(6)));
    let last = told.sent.iter().chain(&told.delivered).map(|(_, at)| *at).max().unwrap();
    assert_eq!(end, last, "the run ends with the workload");
    let records = network.flow_records(end);
    assert_eq!(records.len(), 1, "one connection");
    let record = records[0];
    assert_eq!((record.spec.size, record.spec.reply, record.delivered), (4 * MSS, 3 * MSS, 7 * MSS));
    assert_eq!((record.status, record.ideal), (FlowStatus::Finished, Span::ZERO));
}
