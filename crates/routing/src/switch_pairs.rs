//! Pairs of edge switches between which packets travel: those with ports of two different hosts, or only those whose
//! ports flows choose.

use pauseframe_topology::SwitchGraph;
use pauseframe_units::NodeId;
use std::collections::BTreeMap;

/// Ordered pairs of edge switches, each with two ports of hosts at them that send to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchPairs {
    /// By the receiving and the sending edge switch, as indices: a sending and a receiving port.
    examples: BTreeMap<[u32; 2], [NodeId; 2]>,
}

impl SwitchPairs {
    /// The pairs of all ports of different hosts.
    pub fn all(graph: &SwitchGraph) -> SwitchPairs {
        SwitchPairs::of_choice(graph, |_, ports| (0..ports.len()).collect())
    }

    /// The pairs of ports that flows use. `reached` returns the numbers of the receiver's ports that packets from a
    /// port may reach, given the number of that port with all ports of the sender, and all ports of the receiver. It
    /// may depend on the switches of the ports only.
    pub fn of_choice(
        graph: &SwitchGraph,
        reached: impl Fn((usize, &[NodeId]), &[NodeId]) -> Vec<usize>,
    ) -> SwitchPairs {
        let groups = hosts_by_homes(graph);
        let mut examples = BTreeMap::new();
        for (own_rows, senders) in &groups {
            for (rows, receivers) in &groups {
                let (sender, receiver) = (&senders[0], receivers.iter().find(|other| *other != &senders[0]));
                let Some(receiver) = receiver else { continue };
                for (number, from) in own_rows.iter().enumerate() {
                    for to in reached((number, sender), receiver) {
                        let pair = [sender[number], receiver[to]];
                        examples.entry([rows[to], *from]).or_insert(pair);
                    }
                }
            }
        }
        SwitchPairs { examples }
    }

    /// The edge switches that send to edge switch `to`, each with an example.
    pub(crate) fn senders_to(&self, to: u32) -> Vec<(u32, [NodeId; 2])> {
        let pairs = self.examples.range([to, 0]..=[to, u32::MAX]);
        pairs.map(|([_, from], example)| (*from, *example)).collect()
    }
}

/// The ports of each host, grouped by their edge switches.
fn hosts_by_homes(graph: &SwitchGraph) -> BTreeMap<Vec<u32>, Vec<Vec<NodeId>>> {
    let mut ports: BTreeMap<NodeId, BTreeMap<NodeId, u32>> = BTreeMap::new();
    for (row, switch) in (0..).zip(graph.attachments()) {
        for port in graph.hosts(*switch) {
            ports.entry(graph.host_of(*port)).or_default().insert(*port, row);
        }
    }
    let mut groups: BTreeMap<Vec<u32>, Vec<Vec<NodeId>>> = BTreeMap::new();
    for ports in ports.into_values() {
        let (nodes, rows) = ports.into_iter().unzip();
        groups.entry(rows).or_default().push(nodes);
    }
    groups
}
