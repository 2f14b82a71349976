//! Data on scale-up links: fluid transfers between the hosts of a server.
//!
//! A host sends and receives at the rate of the links. Transfers that leave or enter the same host share its rate
//! max-min fairly (progressive filling); the switch between the hosts never limits them. What a transfer carries goes
//! one piece after the other. All times follow from starts and sizes, so they depend on no partition or thread.
//!
//! Sizes are counted in picoseconds at the full rate, so a piece alone takes exactly its serialisation time.

use crate::settings::ScaleUpSettings;
use pauseframe_units::{Bytes, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// A piece is over if less than this many picoseconds are left: ends are rounded to a picosecond.
const ROUNDING: f64 = 0.5;

/// Data of a transfer, with a token of its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<T> {
    /// `u64::MAX`: until the transfer is closed.
    pub(super) bytes: u64,
    pub(super) token: T,
}

/// A sequence of pieces from one host of a server to another.
#[derive(Debug)]
struct Transfer<T> {
    server: u32,
    /// Places in the server.
    from: u32,
    to: u32,
    pieces: VecDeque<Piece<T>>,
    /// Of the first piece: its size and what has left, in picoseconds at the full rate.
    whole: f64,
    gone: f64,
    /// Share of the full rate.
    share: f64,
}

impl<T> Transfer<T> {
    fn left(&self) -> f64 {
        self.whole - self.gone
    }
}

#[derive(Debug, Default)]
struct Server {
    /// Transfers with data, in the order in which they began to have some.
    busy: Vec<u32>,
    /// When `gone` of its transfers was true.
    reached: Time,
    /// Shares must be found again.
    is_dirty: bool,
    /// Number of its entry in `due` that counts.
    current: u32,
}

/// All transfers of all servers.
#[derive(Debug)]
pub(super) struct ScaleUpLinks<T> {
    settings: Arc<ScaleUpSettings>,
    transfers: Vec<Transfer<T>>,
    free: Vec<u32>,
    servers: Vec<Server>,
    /// By server, the next end of a piece; entries whose number is not current are void.
    due: BinaryHeap<Reverse<(Time, u32, u32)>>,
    dirty: Vec<u32>,
    /// By place in a server, outgoing then incoming: room, and the number of transfers without a share.
    room: Vec<(f64, u32)>,
}

impl<T: Copy> ScaleUpLinks<T> {
    pub(super) fn new(settings: &Arc<ScaleUpSettings>) -> ScaleUpLinks<T> {
        ScaleUpLinks {
            servers: settings.servers().iter().map(|_| Server::default()).collect(),
            settings: Arc::clone(settings),
            transfers: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            dirty: Vec::new(),
            room: Vec::new(),
        }
    }

    /// An empty transfer between two places of a server.
    pub(super) fn open(&mut self, server: u32, from: u32, to: u32) -> u32 {
        let transfer =
            Transfer { server, from, to, pieces: VecDeque::new(), whole: 0.0, gone: 0.0, share: 0.0 };
        if let Some(free) = self.free.pop() {
            self.transfers[free as usize] = transfer;
            free
        } else {
            self.transfers.push(transfer);
            self.transfers.len() as u32 - 1
        }
    }

    /// Appends a piece to a transfer.
    pub(super) fn push(&mut self, transfer: u32, piece: Piece<T>, now: Time) {
        let server = self.transfers[transfer as usize].server;
        if self.transfers[transfer as usize].pieces.is_empty() {
            self.advance(server, now);
            self.servers[server as usize].busy.push(transfer);
            self.begin(transfer, piece.bytes);
            self.mark_dirty(server);
        }
        self.transfers[transfer as usize].pieces.push_back(piece);
    }

    /// Ends a transfer; returns the bytes of its first piece that have left, if it had one.
    pub(super) fn close(&mut self, transfer: u32, now: Time) -> u64 {
        let server = self.transfers[transfer as usize].server;
        self.advance(server, now);
        let sent = self.sent_of_first(transfer, now);
        if !self.transfers[transfer as usize].pieces.is_empty() {
            self.transfers[transfer as usize].pieces.clear();
            self.servers[server as usize].busy.retain(|busy| *busy != transfer);
            self.mark_dirty(server);
        }
        self.free.push(transfer);
        sent
    }

    /// The bytes of the first piece of a transfer that have left by `now`.
    pub(super) fn sent_of_first(&self, transfer: u32, now: Time) -> u64 {
        let Transfer { server, pieces, gone, share, .. } = &self.transfers[transfer as usize];
        let Some(piece) = pieces.front() else { return 0 };
        let since = now.saturating_since(self.servers[*server as usize].reached);
        let bytes = (gone + since.0 as f64 * share) * self.settings.rate.0 as f64 / 8e12;
        (bytes.max(0.0) as u64).min(piece.bytes)
    }

    /// All ends come later by so much.
    pub(super) fn stand_still(&mut self, by: Span) {
        self.servers.iter_mut().for_each(|server| server.reached += by);
        let due = std::mem::take(&mut self.due);
        self.due =
            due.into_iter().map(|Reverse((at, server, number))| Reverse((at + by, server, number))).collect();
    }

    /// The next end of a piece. Shares must be settled.
    pub(super) fn next_end(&self) -> Option<Time> {
        debug_assert!(self.dirty.is_empty(), "shares are settled after each change");
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the pieces that end at `now`, with their transfers, in the order in which these began.
    pub(super) fn take_ended(&mut self, now: Time, ended: &mut Vec<(u32, Piece<T>)>) {
        while self.due.peek().is_some_and(|Reverse((at, ..))| *at == now) {
            let Some(entry) = self.due.pop().filter(|entry| self.is_current(entry)) else { continue };
            let Reverse((_, server, _)) = entry;
            self.advance(server, now);
            let mut busy = std::mem::take(&mut self.servers[server as usize].busy);
            busy.retain(|transfer| {
                if self.transfers[*transfer as usize].left() > ROUNDING {
                    return true;
                }
                let pieces = &mut self.transfers[*transfer as usize].pieces;
                ended.extend(pieces.pop_front().map(|piece| (*transfer, piece)));
                let next = pieces.front().map(|piece| piece.bytes);
                next.inspect(|bytes| self.begin(*transfer, *bytes)).is_some()
            });
            self.servers[server as usize].busy = busy;
            self.mark_dirty(server);
        }
    }

    fn is_current(&self, Reverse((_, server, number)): &Reverse<(Time, u32, u32)>) -> bool {
        self.servers[*server as usize].current == *number
    }

    /// Finds the shares of the servers that changed, and so the next ends.
    pub(super) fn settle(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        for server in std::mem::take(&mut self.dirty) {
            self.servers[server as usize].is_dirty = false;
            self.fill(server);
            let Server { busy, reached, current, .. } = &mut self.servers[server as usize];
            *current += 1;
            let end = |transfer: &u32| {
                let transfer = &self.transfers[*transfer as usize];
                (transfer.left() / transfer.share).round()
            };
            let first = busy.iter().map(end).fold(f64::INFINITY, f64::min);
            if first < u64::MAX as f64 {
                let at = Time(reached.0.saturating_add(first.max(0.0) as u64));
                self.due.push(Reverse((at, server, *current)));
            }
        }
        while self.due.peek().is_some_and(|entry| !self.is_current(entry)) {
            self.due.pop();
        }
    }

    /// Progressive filling: the fullest hosts divide their room among their transfers, then the next ones.
    fn fill(&mut self, server: u32) {
        let hosts = self.settings.servers()[server as usize].len();
        let busy = &self.servers[server as usize].busy;
        self.room.clear();
        self.room.resize(2 * hosts, (1.0, 0));
        for transfer in busy {
            let Transfer { from, to, share, .. } = &mut self.transfers[*transfer as usize];
            *share = 0.0;
            self.room[*from as usize].1 += 1;
            self.room[hosts + *to as usize].1 += 1;
        }
        let mut without = busy.len();
        while without > 0 {
            let of_host = |(room, count): &(f64, u32)| (*count > 0).then(|| room / f64::from(*count));
            let least = self.room.iter().filter_map(of_host).fold(f64::INFINITY, f64::min);
            // Rooms that differ by rounding only are as full.
            let is_full =
                |room: &(f64, u32)| of_host(room).is_some_and(|share| share <= least * (1.0 + 1e-12));
            let full: Vec<bool> = self.room.iter().map(is_full).collect();
            for transfer in busy {
                let Transfer { from, to, share, .. } = &mut self.transfers[*transfer as usize];
                let ends = [*from as usize, hosts + *to as usize];
                if *share == 0.0 && ends.iter().any(|end| full[*end]) {
                    *share = least;
                    without -= 1;
                    for end in ends {
                        let (room, count) = &mut self.room[end];
                        (*room, *count) = ((*room - least).max(0.0), *count - 1);
                    }
                }
            }
        }
    }

    fn begin(&mut self, transfer: u32, bytes: u64) {
        let whole = match bytes {
            u64::MAX => f64::INFINITY,
            _ => self.settings.rate.serialise(Bytes(bytes)).0 as f64,
        };
        let transfer = &mut self.transfers[transfer as usize];
        (transfer.whole, transfer.gone) = (whole, 0.0);
    }

    fn advance(&mut self, server: u32, now: Time) {
        let Server { busy, reached, .. } = &mut self.servers[server as usize];
        let since = now.saturating_since(*reached).0 as f64;
        if since > 0.0 {
            for transfer in busy {
                let Transfer { gone, share, .. } = &mut self.transfers[*transfer as usize];
                *gone += since * *share;
            }
        }
        *reached = (*reached).max(now);
    }

    fn mark_dirty(&mut self, server: u32) {
        if !std::mem::replace(&mut self.servers[server as usize].is_dirty, true) {
            self.dirty.push(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_units::{BitRate, NodeId, Span};
    use proptest::prelude::*;

    /// One byte a nanosecond.
    const RATE: BitRate = BitRate::gbps(8);

    fn links(hosts: u32) -> ScaleUpLinks<usize> {
        let servers = vec![(0..hosts).map(NodeId).collect()];
        ScaleUpLinks::new(&Arc::new(ScaleUpSettings::new(servers, RATE, Span::ZERO)))
    }

    /// Runs pieces given as (start in ns, from, to, bytes), each on its own transfer; returns their ends in ps.
    fn run(hosts: u32, pieces: &[(u64, u32, u32, u64)]) -> Vec<u64> {
        let (mut links, mut ends) = (links(hosts), vec![0; pieces.len()]);
        let mut starts: Vec<usize> = (0..pieces.len()).collect();
        starts.sort_by_key(|index| Reverse(pieces[*index].0));
        loop {
            let start = starts.last().map(|index| Time(pieces[*index].0 * 1000));
            let end = links.next_end();
            let Some(now) = [start, end].into_iter().flatten().min() else { return ends };
            let mut over = Vec::new();
            links.take_ended(now, &mut over);
            for (transfer, piece) in over {
                ends[piece.token] = now.0;
                links.close(transfer, now);
            }
            while let Some(index) = starts.pop_if(|index| pieces[*index].0 * 1000 == now.0) {
                let (_, from, to, bytes) = pieces[index];
                let transfer = links.open(0, from, to);
                links.push(transfer, Piece { bytes, token: index }, now);
            }
            links.settle();
        }
    }

    #[test]
    fn a_piece_alone_takes_its_serialisation_time() {
        assert_eq!(run(2, &[(3, 0, 1, 1_000_003)]), [3_000 + 1_000_003_000]);
        // Both directions of a host are independent.
        assert_eq!(run(3, &[(0, 0, 1, 500), (0, 1, 0, 500), (0, 2, 1, 0)]), [500_000, 500_000, 0]);
    }

    #[test]
    fn transfers_share_the_fuller_end() {
        // Two leave host 0; the one to host 1 meets a third there, and the rest of host 0 goes to the other.
        let ends = run(4, &[(0, 0, 1, 300), (0, 0, 2, 300), (0, 3, 1, 300), (0, 3, 1, 300)]);
        // Host 1 divides its rate by three; host 0 has two thirds for its other transfer.
        assert_eq!(ends, [900_000, 450_000, 900_000, 900_000]);
        // A transfer that begins later gets half of the rate.
        assert_eq!(run(2, &[(0, 0, 1, 300), (100, 0, 1, 100)]), [400_000, 300_000]);
    }

    #[test]
    fn pieces_of_a_transfer_go_one_after_the_other() {
        let mut links = links(2);
        let transfer = links.open(0, 0, 1);
        for (token, bytes) in [(0, 700), (1, 10)] {
            links.push(transfer, Piece { bytes, token }, Time::ZERO);
        }
        links.settle();
        assert_eq!(links.sent_of_first(transfer, Time(70_000)), 70);
        for (at, token) in [(700_000, 0), (710_000, 1)] {
            let mut over = Vec::new();
            assert_eq!(links.next_end(), Some(Time(at)));
            links.take_ended(Time(at), &mut over);
            links.settle();
            assert_eq!(over.iter().map(|(_, piece)| piece.token).collect::<Vec<_>>(), [token]);
        }
        assert_eq!(links.next_end(), None);
    }

    #[test]
    fn a_piece_without_an_end_lasts_until_its_stream_is_closed() {
        let mut links = links(2);
        let transfer = links.open(0, 0, 1);
        links.push(transfer, Piece { bytes: u64::MAX, token: 0 }, Time::ZERO);
        links.settle();
        assert_eq!(links.next_end(), None);
        assert_eq!(links.sent_of_first(transfer, Time(5_000_000)), 5_000);
        assert_eq!(links.close(transfer, Time(9_000_000)), 9_000);
    }

    proptest! {
        /// No host exceeds its rate over the whole run, and all pieces end.
        #[test]
        fn no_host_is_faster_than_its_links(
            pieces in prop::collection::vec((0..50_u64, 0..4_u32, 1..4_u32, 1..2_000_u64), 1..30)
        ) {
            let pieces: Vec<_> = pieces.into_iter().map(|(at, from, by, size)| (at, from, (from + by) % 4, size)).collect();
            let ends = run(4, &pieces);
            for host in 0..4 {
                for side in [0, 1] {
                    let own = |piece: &(u64, u32, u32, u64)| [piece.1, piece.2][side] == host;
                    let bytes: u64 = pieces.iter().filter(|piece| own(piece)).map(|piece| piece.3).sum();
                    let last = pieces.iter().zip(&ends).filter(|(piece, _)| own(piece)).map(|(_, end)| *end).max();
                    let first = pieces.iter().filter(|piece| own(piece)).map(|piece| piece.0 * 1000).min();
                    if let (Some(first), Some(last)) = (first, last) {
                        prop_assert!(last + pieces.len() as u64 >= first + bytes * 1000, "{last} {first} {bytes}");
                    }
                }
            }
            for (piece, end) in pieces.iter().zip(&ends) {
                prop_assert!(*end >= (piece.0 + piece.3) * 1000);
            }
        }
    }
}
