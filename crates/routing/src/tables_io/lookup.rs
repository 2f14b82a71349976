//! Fast look-ups for each of the millions of rows in a table of a large fabric.

use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{NodeId, PortId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// For every switch, its port and the position of the row in the file.
pub(super) type Column = Vec<(PortId, u32)>;

/// Columns by VLAN and destination; a column contains the port of every switch. Most files list all rows of a
/// destination together, so the last column is cached.
#[derive(Default)]
pub(super) struct Columns {
    place: BTreeMap<(u16, NodeId), usize>,
    all: Vec<Column>,
    last: Option<((u16, NodeId), usize)>,
}

impl Columns {
    pub(super) fn get(&self, vlan: u16, destination: NodeId) -> Option<&Column> {
        self.place.get(&(vlan, destination)).map(|place| &self.all[*place])
    }

    /// Returns the column of a VLAN and destination; a new column has an entry for each of `switches`.
    pub(super) fn or_new(&mut self, vlan: u16, destination: NodeId, switches: usize) -> &mut Column {
        let key = (vlan, destination);
        let place = match self.last.filter(|(last, _)| *last == key) {
            Some((_, place)) => place,
            None => *self.place.entry(key).or_insert(self.all.len()),
        };
        self.last = Some((key, place));
        if place == self.all.len() {
            self.all.push(vec![(PortId::NONE, 0); switches]);
        }
        &mut self.all[place]
    }

    /// The VLANs that have table rows, ascending.
    pub(super) fn vlans(&self) -> BTreeSet<u16> {
        self.place.keys().map(|(vlan, _)| *vlan).collect()
    }
}

/// The ports of switches by name. Switches share most port names and files have millions of rows, so all
/// names are in one map that is small enough for a cache.
pub(super) struct PortNames {
    id: HashMap<String, u32>,
    /// For each name, the switches that have such a port, ascending, with the port.
    of_name: Vec<Vec<(u32, PortId)>>,
}

impl PortNames {
    pub(super) fn new(graph: &SwitchGraph, topology: &Topology, labels: &Labels) -> PortNames {
        let (mut id, mut of_name) = (HashMap::new(), Vec::<Vec<_>>::new());
        for switch in 0..graph.len() as u32 {
            for (name, port) in labels.ports_by_name(topology, graph.node(switch)) {
                let next = of_name.len() as u32;
                let known = *id.entry(name).or_insert(next);
                if known == next {
                    of_name.push(Vec::new());
                }
                of_name[known as usize].push((switch, port));
            }
        }
        PortNames { id, of_name }
    }

    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.id.get(name).copied()
    }

    pub(super) fn port(&self, switch: u32, name: u32) -> Option<PortId> {
        let ports = &self.of_name[name as usize];
        // If all earlier switches have a port of this name too, its position is known without a search.
        let (_, port) = match ports.get(switch as usize).filter(|(at, _)| *at == switch) {
            Some(found) => found,
            None => ports.binary_search_by_key(&switch, |(at, _)| *at).ok().map(|place| &ports[place])?,
        };
        Some(*port)
    }
}
