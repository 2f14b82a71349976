//! The order of the ranks of a communicator: rings and trees over servers, one of each for a channel.

use super::Nccl;

/// The ranks of a communicator by server. Ranks are positions in the communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The ranks of each server, by rail.
    servers: Vec<Vec<u32>>,
    /// By channel: the order of the ring, and the place of each rank in it.
    pub(super) rings: Vec<(Vec<u32>, Vec<u32>)>,
    /// Of each channel's first tree, then of each one's second: the parent and the children of each rank.
    pub(super) trees: Vec<Vec<Branch>>,
}

/// The neighbours of a rank in a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Branch {
    pub(super) parent: Option<u32>,
    pub(super) children: Vec<u32>,
}

impl Layout {
    /// The layout of ranks with these places (server, rail).
    pub(crate) fn new(places: &[(u32, u32)], settings: &Nccl) -> Layout {
        let servers = by_server(places);
        // As many channels as every server has GPUs of the group, of those that the smallest can give.
        let smallest = servers.iter().map(Vec::len).min().unwrap_or(1);
        let rails = if servers.len() > 1 { smallest as u32 } else { 1 };
        let channels = settings.channels.unwrap_or(rails).max(1);
        let order = |channel: u32| -> Vec<u32> {
            let turned = |server: &Vec<u32>| {
                let first = channel as usize % server.len();
                [&server[first..], &server[..first]].concat()
            };
            servers.iter().flat_map(turned).collect()
        };
        let ring = |channel| {
            let order = order(channel);
            let mut place = vec![0; order.len()];
            (0..).zip(&order).for_each(|(at, rank)| place[*rank as usize] = at);
            (order, place)
        };
        // Both trees carry half of the data of a channel each, so that every rail has leaves and inner nodes.
        let tree = |at| tree(&servers, at % channels, at >= channels, places.len());
        Layout {
            rings: (0..channels).map(ring).collect(),
            trees: (0..2 * channels).map(tree).collect(),
            servers,
        }
    }

    pub(super) fn server_count(&self) -> u32 {
        self.servers.len() as u32
    }

    /// The ranks that share a server with this one.
    pub(super) fn server_of(&self, rank: u32) -> &[u32] {
        self.servers.iter().find(|ranks| ranks.contains(&rank)).map_or(&[], Vec::as_slice)
    }

    /// The ranks of the largest server.
    pub(super) fn ranks_per_server(&self) -> u32 {
        self.servers.iter().map(Vec::len).max().unwrap_or(1) as u32
    }
}

/// The ranks of each server, servers in the order of their first rank.
fn by_server(places: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut servers: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for (rank, (server, _)) in (0..).zip(places) {
        let at = *known.entry(*server).or_insert_with(|| {
            servers.push((*server, Vec::new()));
            servers.len() - 1
        });
        servers[at].1.push(rank);
    }
    for (_, ranks) in &mut servers {
        ranks.sort_by_key(|rank| (places[*rank as usize].1, *rank));
    }
    servers.into_iter().map(|(_, ranks)| ranks).collect()
}

/// A tree of a channel: the GPU of its rail is the server's node in one of two binary trees, and the head of a chain
/// of the other GPUs.
fn tree(servers: &[Vec<u32>], channel: u32, is_second: bool, ranks: usize) -> Vec<Branch> {
    let head = |server: u32| {
        let ranks = &servers[server as usize];
        ranks[channel as usize % ranks.len()]
    };
    let mut branches = vec![Branch::default(); ranks];
    let count = servers.len() as u32;
    for server in 0..count {
        let (parent, children) = double_tree(count, server, is_second);
        let branch = &mut branches[head(server) as usize];
        branch.parent = parent.map(head);
        branch.children = children.into_iter().map(head).collect();
        let ranks = &servers[server as usize];
        for step in 1..ranks.len() {
            let at = |step: usize| ranks[(channel as usize + step) % ranks.len()];
            branches[at(step - 1) as usize].children.push(at(step));
            branches[at(step) as usize].parent = Some(at(step - 1));
        }
    }
    branches
}

/// Parent and children of a node in one of two binary trees over `count` nodes (NCCL `src/graph/trees.cc`). The
/// second mirrors the first, or is shifted by one if the count is odd, so that leaves of one are inner nodes of the
/// other.
pub(super) fn double_tree(count: u32, node: u32, is_second: bool) -> (Option<u32>, Vec<u32>) {
    if !is_second {
        return binary_tree(count, node);
    }
    let (there, back): (u32, Box<dyn Fn(u32) -> u32>) = if count.is_multiple_of(2) {
        (count - 1 - node, Box::new(move |node| count - 1 - node))
    } else {
        ((node + count - 1) % count, Box::new(move |node| (node + 1) % count))
    };
    let (parent, children) = binary_tree(count, there);
    (parent.map(&back), children.into_iter().map(back).collect())
}

fn binary_tree(count: u32, node: u32) -> (Option<u32>, Vec<u32>) {
    if node == 0 {
        let half = count.next_power_of_two() / 2;
        return (None, if count > 1 { vec![half] } else { Vec::new() });
    }
    let bit = 1 << node.trailing_zeros();
    let parent = (node ^ bit) | (bit << 1);
    let parent = if parent < count { parent } else { node ^ bit };
    let mut children = Vec::new();
    let mut low = bit >> 1;
    if low > 0 {
        children.push(node - low);
        while low > 0 && node + low >= count {
            low >>= 1;
        }
        if low > 0 {
            children.push(node + low);
        }
    }
    (Some(parent), children)
}
