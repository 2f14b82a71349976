//! Look-ups for each of the millions of rows of a large table.

use crate::Topology;
use crate::interchange::Labels;
use crate::routing::SwitchGraph;
use pauseframe_units::{NodeId, PortId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The port of every switch, with the place of the row.
pub(super) type Column = Vec<(PortId, u32)>;

/// The columns by VLAN and destination. Most files group their rows by these, so the last one is cached.
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

    /// The column of a VLAN and destination; a new one has an entry per switch.
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

    /// The VLANs with rows, ascending.
    pub(super) fn vlans(&self) -> BTreeSet<u16> {
        self.place.keys().map(|(vlan, _)| *vlan).collect()
    }
}

/// The ports of switches by name. Switches share most port names, and there are millions of rows, so a name is looked
/// up in one map small enough for a cache.
pub(super) struct PortNames {
    id: HashMap<String, u32>,
    /// For each name, the switches with it, ascending, with the port.
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
        // If all previous switches have the name too, the position is known.
        let (_, port) = match ports.get(switch as usize).filter(|(at, _)| *at == switch) {
            Some(found) => found,
            None => ports.binary_search_by_key(&switch, |(at, _)| *at).ok().map(|place| &ports[place])?,
        };
        Some(*port)
    }
}
