//! The paths of flows that do not spray: the egress ports from host to host, found once a flow and again when routes change.

use pauseframe_units::PortId;

/// The paths of open flows: rows of ports in one array.
#[derive(Debug)]
pub(crate) struct Paths {
    ports: Vec<PortId>,
    stride: usize,
    /// Rows before this offset are of an older, shorter stride: they are not used again.
    first_free: u32,
    free: Vec<u32>,
}

impl Paths {
    /// No paths yet; they have at most `stride` hops.
    pub(crate) fn new(stride: usize) -> Paths {
        Paths { ports: Vec::new(), stride, first_free: 0, free: Vec::new() }
    }

    #[inline]
    pub(crate) fn port(&self, route: u32, hop: u8) -> PortId {
        self.ports[route as usize + usize::from(hop)]
    }

    pub(crate) fn add(&mut self, path: &[PortId]) -> u32 {
        assert!(path.len() <= self.stride, "a path is longer than the diameter of the network");
        let route = self.free.pop().unwrap_or_else(|| {
            self.ports.resize(self.ports.len() + self.stride, PortId::NONE);
            (self.ports.len() - self.stride) as u32
        });
        self.ports[route as usize..route as usize + path.len()].copy_from_slice(path);
        route
    }

    pub(crate) fn remove(&mut self, route: u32) {
        if route >= self.first_free {
            self.free.push(route);
        }
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
