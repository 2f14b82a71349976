//! Places ranks on hosts.

use pauseframe_units::counted;

/// A rule that places the ranks of jobs on hosts. Jobs are placed one after the other and share no slot of a
/// host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// The next free hosts in the order of the topology, so that racks are filled one after the other.
    Packed,
    /// Hosts, or whole servers, of different racks, in round-robin order of the racks.
    RoundRobin,
    /// Random free hosts, or random servers, each whole.
    Random,
    /// The listed hosts, one for each rank; jobs may share hosts.
    Hosts(Vec<u32>),
}

/// The hosts, with the number of ranks on each. Jobs with different numbers of ranks per host do not share
/// hosts.
#[derive(Clone, Debug)]
pub struct Rooms {
    /// By rack, in the order of the topology: hosts that stay together, the GPUs of a server. A host alone is a server of one.
    racks: Vec<Vec<Vec<u32>>>,
    /// For each host, the number of its ranks, and the maximum since the first rank was placed.
    taken: Vec<(u32, u32)>,
}

impl Rooms {
    /// Makes racks of servers of empty hosts (numbers below `hosts`).
    pub fn new(racks: Vec<Vec<Vec<u32>>>, hosts: u32) -> Rooms {
        Rooms { racks, taken: vec![(0, 0); hosts as usize] }
    }

    /// Places `ranks` ranks with at most `per_host` on each host; returns their hosts. `below(n)` draws a
    /// random number below n.
    ///
    /// # Errors
    /// The number of free slots, if there are too few.
    pub fn place(
        &mut self,
        rule: &Placement,
        ranks: u32,
        per_host: u32,
        mut below: impl FnMut(u64) -> u64,
    ) -> Result<Vec<u32>, String> {
        if let Placement::Hosts(hosts) = rule {
            if hosts.len() != ranks as usize {
                return Err(format!("names {} for {}", counted(hosts.len(), "host"), counted(ranks, "rank")));
            }
            self.take(hosts, per_host);
            return Ok(hosts.clone());
        }
        let mut blocks = match rule {
            Placement::RoundRobin => self.across(per_host),
            _ => self.along(per_host),
        };
        let free = blocks.iter().map(Vec::len).sum::<usize>();
        if free < ranks as usize {
            return Err(format!("needs {ranks} places on hosts; {free} are free"));
        }
        if *rule == Placement::Random {
            // The loop draws the first elements of a Fisher-Yates shuffle.
            let (mut at, mut drawn) = (0, 0);
            while drawn < ranks as usize {
                let other = at + below((blocks.len() - at) as u64) as usize;
                blocks.swap(at, other);
                drawn += blocks[at].len();
                at += 1;
            }
        }
        let places: Vec<u32> = blocks.into_iter().flatten().take(ranks as usize).collect();
        self.take(&places, per_host);
        Ok(places)
    }

    fn take(&mut self, places: &[u32], per_host: u32) {
        for &host in places {
            let (ranks, room) = &mut self.taken[host as usize];
            if *ranks == 0 {
                *room = per_host;
            }
            *ranks += 1;
        }
    }

    /// Yields a host once for each slot that a job with `per_host` ranks per host can still use.
    fn free(&self, host: u32, per_host: u32) -> impl Iterator<Item = u32> + use<> {
        let (ranks, room) = self.taken[host as usize];
        let left = if ranks == 0 || room == per_host { per_host.saturating_sub(ranks) } else { 0 };
        std::iter::repeat_n(host, left as usize)
    }

    /// Free slots of a rack: those of a server together, those of a host alone one by one.
    fn blocks(&self, rack: &[Vec<u32>], per_host: u32) -> Vec<Vec<u32>> {
        let of_server = |server: &Vec<u32>| -> Vec<Vec<u32>> {
            let slots = server.iter().flat_map(|&host| self.free(host, per_host));
            if server.len() == 1 { slots.map(|host| vec![host]).collect() } else { vec![slots.collect()] }
        };
        rack.iter().flat_map(of_server).filter(|block| !block.is_empty()).collect()
    }

    /// Free slots, rack by rack.
    fn along(&self, per_host: u32) -> Vec<Vec<u32>> {
        self.racks.iter().flat_map(|rack| self.blocks(rack, per_host)).collect()
    }

    /// Free slots in round-robin order of the racks.
    fn across(&self, per_host: u32) -> Vec<Vec<u32>> {
        let racks: Vec<_> = self.racks.iter().map(|rack| self.blocks(rack, per_host)).collect();
        let longest = racks.iter().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|at| racks.iter().filter_map(move |rack| rack.get(at).cloned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms() -> Rooms {
        let racks = [vec![0, 1, 2], vec![3, 4], vec![5, 6, 7]];
        let alone = |rack: Vec<u32>| rack.into_iter().map(|host| vec![host]).collect();
        Rooms::new(racks.map(alone).to_vec(), 8)
    }

    #[test]
    fn servers_stay_whole() {
        let rooms = || Rooms::new(vec![vec![vec![0, 1], vec![2, 3]], vec![vec![4, 5], vec![6, 7]]], 8);
        assert_eq!(rooms().place(&Placement::Packed, 5, 1, |_| 0), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(rooms().place(&Placement::RoundRobin, 8, 1, |_| 0), Ok(vec![0, 1, 4, 5, 2, 3, 6, 7]));
        let mut draws = [2, 0, 1].into_iter();
        let drawn = rooms().place(&Placement::Random, 6, 1, |n| draws.next().unwrap() % n);
        assert_eq!(drawn, Ok(vec![4, 5, 2, 3, 6, 7]));
        // The rest of a server goes first to the next job.
        let mut rooms = rooms();
        assert_eq!(rooms.place(&Placement::Packed, 3, 1, |_| 0), Ok(vec![0, 1, 2]));
        assert_eq!(rooms.place(&Placement::RoundRobin, 3, 1, |_| 0), Ok(vec![3, 4, 5]));
    }

    #[test]
    fn jobs_take_what_is_free() {
        let mut rooms = rooms();
        assert_eq!(rooms.place(&Placement::RoundRobin, 4, 1, |_| 0), Ok(vec![0, 3, 5, 1]));
        assert_eq!(rooms.place(&Placement::Packed, 3, 1, |_| 0), Ok(vec![2, 4, 6]));
        assert_eq!(
            rooms.place(&Placement::Packed, 2, 1, |_| 0),
            Err("needs 2 places on hosts; 1 are free".into())
        );
        assert_eq!(rooms.place(&Placement::Hosts(vec![7, 7]), 2, 1, |_| 0), Ok(vec![7, 7]));
        assert!(rooms.place(&Placement::Random, 1, 1, |_| 0).is_err());
    }

    #[test]
    fn hosts_of_several_ranks_are_not_shared_with_other_numbers() {
        let mut rooms = rooms();
        assert_eq!(rooms.place(&Placement::Packed, 3, 2, |_| 0), Ok(vec![0, 0, 1]));
        assert_eq!(rooms.place(&Placement::Packed, 2, 1, |_| 0), Ok(vec![2, 3]));
        assert_eq!(rooms.place(&Placement::RoundRobin, 4, 2, |_| 0), Ok(vec![1, 4, 5, 4]));
        assert_eq!(rooms.place(&Placement::Packed, 3, 2, |_| 0), Ok(vec![5, 6, 6]));
        assert_eq!(rooms.place(&Placement::Packed, 3, 3, |_| 0), Ok(vec![7, 7, 7]));
        assert_eq!(
            rooms.place(&Placement::Packed, 1, 1, |_| 0),
            Err("needs 1 places on hosts; 0 are free".into())
        );
    }

    #[test]
    fn lots_use_every_host_once() {
        let mut draws = [5, 0, 3, 1, 0, 2, 1, 0].into_iter();
        let mut hosts = rooms().place(&Placement::Random, 8, 1, |n| draws.next().unwrap() % n).unwrap();
        assert_eq!(hosts[..3], [5, 1, 0]);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
