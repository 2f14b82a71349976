//! `[topology]`.

use pauseframe_topology::interchange::Import;
use pauseframe_units::{BitRate, Span};
use serde::Serialize;
use std::sync::Arc;

/// `[topology]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TopologySpec {
    /// The family and its parameters.
    pub kind: TopologyKind,
    /// Rate and delay of links at hosts (and of all links, unless `fabric_link` says else).
    pub link: LinkSpec,
    /// Rate and delay of links between switches.
    pub fabric_link: LinkSpec,
}

/// The generators.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TopologyKind {
    /// Three-tier fat tree of k-port switches: k^3/4 hosts.
    FatTree {
        /// Ports a switch, even.
        k: u32,
    },
    /// XGFT(h; `m_1..m_h`; `w_1..w_h`), Öhring 1995.
    Xgft {
        /// Children of a node of each level.
        m: Vec<u32>,
        /// Parents of a node of each level.
        w: Vec<u32>,
        /// Further hosts at each switch of the highest level.
        external: u32,
    },
    /// Every leaf linked to every spine.
    LeafSpine {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches.
        spines: u32,
        /// Hosts at each leaf.
        hosts_per_leaf: u32,
    },
    /// Two switches and the link between them.
    Dumbbell {
        /// Hosts at the left switch.
        left: u32,
        /// Hosts at the right switch.
        right: u32,
    },
    /// One switch.
    Star {
        /// Hosts.
        hosts: u32,
    },
    /// Switches in a line.
    Line {
        /// Switches.
        switches: u32,
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// Switches in a ring.
    Ring {
        /// Switches, at least 3.
        switches: u32,
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// A random regular graph (Singla et al., NSDI 2012).
    Jellyfish {
        /// Switches.
        switches: u32,
        /// Ports of each switch that lead to other switches.
        network_ports: u32,
        /// Hosts at each.
        hosts_per_switch: u32,
        /// Draws the links.
        seed: u64,
    },
    /// A torus.
    Torus {
        /// Switches along each dimension.
        lengths: Vec<u32>,
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// A dragonfly (Kim et al., ISCA 2008), in the letters of the paper.
    Dragonfly {
        /// Hosts at each switch.
        p: u32,
        /// Switches in each group.
        a: u32,
        /// Global links at each switch.
        h: u32,
        /// Groups.
        g: u32,
    },
    /// A graph from a file of another tool.
    File {
        /// As written: relative to the scenario; what messages call it.
        path: String,
        /// SHA-256 of its text, "sha256:..".
        digest: String,
        /// What it says.
        #[serde(skip)]
        fabric: FabricFile,
    },
    /// Nodes and links by name.
    Custom {
        /// Host names.
        hosts: Vec<String>,
        /// Switch names.
        switches: Vec<String>,
        /// Pairs of names, with rate and delay where they differ from `link` / `fabric_link`.
        links: Vec<CustomLink>,
    },
}

/// A link of a `custom` topology: `["A", "S1"]` or `{ ends = ["A", "S1"], rate = "40 Gbps", delay = "1 us" }`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CustomLink {
    /// The two nodes.
    pub ends: [String; 2],
    /// Rate and delay from the first to the second.
    pub link: LinkSpec,
    /// The way back.
    pub back: LinkSpec,
}

/// Rate and propagation delay, both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LinkSpec {
    /// Bits per second.
    pub rate: BitRate,
    /// One way.
    pub delay: Span,
}

/// What a file says of a fabric: the graph, the names of ports, and what was assumed.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricFile(pub Arc<Import>);
