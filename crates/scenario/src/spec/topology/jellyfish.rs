//! Random regular graphs.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// A random regular graph (Singla et al., NSDI 2012): each switch has `network_ports` links to others
    pub struct Jellyfish {
        /// Switches
        switches: u32 = required();
        /// Ports of each switch that lead to other switches
        network_ports: u32 = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
        /// Draws the links
        seed: u64 = or(1);
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Jellyfish {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        let &Jellyfish { switches, network_ports, hosts_per_switch, seed } = self;
        let size = generate::Jellyfish { switches, network_ports, hosts_per_switch };
        generate::jellyfish(size, seed, host, fabric)
    }
}
