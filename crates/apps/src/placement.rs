//! Which rank runs on which host.

/// A rule that puts the ranks of jobs on hosts. Jobs are placed one after the other and share no place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// The next free hosts, in the order of the topology: a rack is filled before the next.
    Packed,
    /// Racks in turn.
    RoundRobin,
    /// Free hosts by lot.
    Random,
    /// These hosts, one for each rank; they may be shared.
    Hosts(Vec<u32>),
}

/// Hosts and how many ranks each has room for.
#[derive(Clone, Debug)]
pub struct Rooms {
    /// Hosts by rack, in the order of the topology.
    racks: Vec<Vec<u32>>,
    /// Places left on each host.
    left: Vec<u32>,
}

impl Rooms {
    /// Racks of hosts (numbers below `hosts`), each with room for `per_host` ranks.
    pub fn new(racks: Vec<Vec<u32>>, hosts: u32, per_host: u32) -> Rooms {
        Rooms { racks, left: vec![per_host; hosts as usize] }
    }

    /// The hosts of `ranks` ranks; `below(n)` draws a number below n.
    ///
    /// # Errors
    /// How many places there are, if they are too few.
    pub fn place(
        &mut self,
        rule: &Placement,
        ranks: u32,
        mut below: impl FnMut(u64) -> u64,
    ) -> Result<Vec<u32>, String> {
        if let Placement::Hosts(hosts) = rule {
            if hosts.len() != ranks as usize {
                return Err(format!("names {} hosts for {ranks} ranks", hosts.len()));
            }
            for &host in hosts {
                self.left[host as usize] = self.left[host as usize].saturating_sub(1);
            }
            return Ok(hosts.clone());
        }
        let mut places = match rule {
            Placement::RoundRobin => self.across(),
            _ => self.along(),
        };
        if places.len() < ranks as usize {
            return Err(format!("needs {ranks} places on hosts; {} are free", places.len()));
        }
        if *rule == Placement::Random {
            // Fisher and Yates: the first places of a shuffle.
            for at in 0..ranks as usize {
                let other = at + below((places.len() - at) as u64) as usize;
                places.swap(at, other);
            }
        }
        places.truncate(ranks as usize);
        for &host in &places {
            self.left[host as usize] -= 1;
        }
        Ok(places)
    }

    /// Free places host by host.
    fn along(&self) -> Vec<u32> {
        let hosts = self.racks.iter().flatten();
        hosts.flat_map(|&host| std::iter::repeat_n(host, self.left[host as usize] as usize)).collect()
    }

    /// Free places rack by rack in turn.
    fn across(&self) -> Vec<u32> {
        let of = |rack: &Vec<u32>| -> Vec<u32> {
            rack.iter()
                .flat_map(|&host| std::iter::repeat_n(host, self.left[host as usize] as usize))
                .collect()
        };
        let racks: Vec<Vec<u32>> = self.racks.iter().map(of).collect();
        let longest = racks.iter().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|at| racks.iter().filter_map(move |rack| rack.get(at).copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms() -> Rooms {
        Rooms::new(vec![vec![0, 1, 2], vec![3, 4], vec![5, 6, 7]], 8, 1)
    }

    #[test]
    fn jobs_take_what_is_free() {
        let mut rooms = rooms();
        assert_eq!(rooms.place(&Placement::RoundRobin, 4, |_| 0), Ok(vec![0, 3, 5, 1]));
        assert_eq!(rooms.place(&Placement::Packed, 3, |_| 0), Ok(vec![2, 4, 6]));
        assert_eq!(
            rooms.place(&Placement::Packed, 2, |_| 0),
            Err("needs 2 places on hosts; 1 are free".into())
        );
        assert_eq!(rooms.place(&Placement::Hosts(vec![7, 7]), 2, |_| 0), Ok(vec![7, 7]));
        assert!(rooms.place(&Placement::Random, 1, |_| 0).is_err());
    }

    #[test]
    fn lots_use_every_host_once() {
        let mut draws = [5, 0, 3, 1, 0, 2, 1, 0].into_iter();
        let mut hosts = rooms().place(&Placement::Random, 8, |n| draws.next().unwrap() % n).unwrap();
        assert_eq!(hosts[..3], [5, 1, 0]);
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
