//! The paths of flows that do not spray: the egress ports from host to host, found once a flow and again when routes change.
//!
//! Packets outlive their flows: a duplicate is still in a queue when the last byte has arrived. So a row is counted: one
//! for the connection end or stream that sends by it, one for each of its packets under way, wherever that is. It is used
//! again when the last of them is gone.

use pauseframe_units::PortId;

/// The paths of open flows and of their packets: rows of ports in one array.
#[derive(Debug)]
pub(crate) struct Paths {
    ports: Vec<PortId>,
    /// At the place where a row begins: who uses it.
    users: Vec<u32>,
    stride: usize,
    /// Rows before this offset are of an older, shorter stride: they are not used again.
    first_free: u32,
    free: Vec<u32>,
}

impl Paths {
    /// No paths yet; they have at most `stride` hops.
    pub(crate) fn new(stride: usize) -> Paths {
        Paths { ports: Vec::new(), users: Vec::new(), stride, first_free: 0, free: Vec::new() }
    }

    #[inline]
    pub(crate) fn port(&self, route: u32, hop: u8) -> PortId {
        self.ports[route as usize + usize::from(hop)]
    }

    /// A row for `path`, with one user.
    pub(crate) fn add(&mut self, path: &[PortId]) -> u32 {
        assert!(path.len() <= self.stride, "a path is longer than the diameter of the network");
        let route = self.free.pop().unwrap_or_else(|| {
            let route = self.ports.len();
            self.ports.resize(route + self.stride, PortId::NONE);
            self.users.resize(route + self.stride, 0);
            route as u32
        });
        let row = &mut self.ports[route as usize..route as usize + self.stride];
        row[..path.len()].copy_from_slice(path);
        row[path.len()..].fill(PortId::NONE);
        self.users[route as usize] = 1;
        route
    }

    /// One user more of the row at `route`.
    #[inline]
    pub(crate) fn hold(&mut self, route: u32) {
        self.users[route as usize] += 1;
    }

    /// One user fewer; after the last one the row is free.
    #[inline]
    pub(crate) fn release(&mut self, route: u32) {
        let users = &mut self.users[route as usize];
        *users = users.checked_sub(1).expect("a path was given back more often than it was taken");
        if *users == 0 {
            self.reuse(route);
        }
    }

    #[cold]
    fn reuse(&mut self, route: u32) {
        if route >= self.first_free {
            self.free.push(route);
        }
    }

    /// Rows that somebody uses.
    pub(crate) fn in_use(&self) -> usize {
        self.users.iter().filter(|users| **users > 0).count()
    }

    /// Whether the row at `route` begins with `path`, which has as many hops.
    pub(crate) fn is(&self, route: u32, path: &[PortId]) -> bool {
        self.ports[route as usize..].starts_with(path)
    }

    /// Makes room for longer paths.
    pub(crate) fn lengthen(&mut self, stride: usize) {
        if stride > self.stride {
            self.stride = stride;
            self.first_free = self.ports.len() as u32;
            self.free.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path<const N: usize>(ports: [u32; N]) -> [PortId; N] {
        ports.map(PortId)
    }

    #[test]
    fn a_row_is_used_again_when_its_last_user_is_gone() {
        let mut paths = Paths::new(3);
        let first = paths.add(&path([1, 2, 3]));
        paths.hold(first);
        paths.release(first);
        let second = paths.add(&path([4, 5]));
        assert_ne!(first, second);
        assert_eq!((paths.port(first, 2), paths.in_use()), (PortId(3), 2));
        paths.release(first);
        assert_eq!(paths.add(&path([6, 7])), first);
        assert_eq!(paths.port(first, 2), PortId::NONE, "nothing is left of the longer path before");
    }

    #[test]
    fn rows_of_the_shorter_stride_keep_their_paths_and_are_not_used_again() {
        let mut paths = Paths::new(2);
        let short = paths.add(&path([1, 2]));
        paths.lengthen(4);
        let long = paths.add(&path([3, 4, 5, 6]));
        paths.release(short);
        assert!(![short, long].contains(&paths.add(&path([7]))));
        assert!(paths.is(long, &path([3, 4, 5, 6])));
    }

    #[test]
    #[should_panic(expected = "given back more often")]
    fn a_row_is_not_given_back_twice() {
        let mut paths = Paths::new(1);
        let route = paths.add(&path([1]));
        paths.release(route);
        paths.release(route);
    }
}
