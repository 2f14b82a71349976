//! `collectives = { .. }`: the library whose collective operations ranks call.

use pauseframe_apps::{Application, Kind, Nccl, NcclPattern, Sending, is_of_nccl};
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting};
use pauseframe_schema::{choices, table};
use pauseframe_units::{Bytes, Span};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

choices! {
    /// Libraries of collective operations
    pub enum Library {
        /// MPICH's algorithms, and Open MPI's ring
        Mpi = "mpi",
        /// NCCL's: channels that pipeline slices
        Nccl = "nccl",
    }
}

choices! {
    /// NCCL's algorithms of an all-reduce
    pub enum NcclAlgorithm {
        /// The faster one in NCCL's model of times
        Auto = "auto",
        /// A ring in each channel
        Ring = "ring",
        /// A double binary tree over servers, chains within
        Tree = "tree",
    }
}

/// Data of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slice {
    /// A slice of so many bytes.
    Bytes(Bytes),
    /// The whole block of a step.
    Step,
}

impl Slice {
    /// Two steps of a buffer of 4 MiB and 8 steps (`ALLREDUCE_SLICESTEPS`, `NCCL_STEPS`).
    pub const DEFAULT: Slice = Slice::Bytes(Bytes(1 << 20));

    fn bytes(self) -> Option<Bytes> {
        match self {
            Slice::Bytes(bytes) => Some(bytes),
            Slice::Step => None,
        }
    }
}

impl Setting for Slice {
    fn shape() -> Shape {
        Shape::Any("a size or \"step\"", vec![Bytes::shape(), Shape::OneOf(vec!["step"])])
    }
    fn read(item: &Item) -> Result<Slice, Mistake> {
        match &item.value {
            Value::Text(text) if text.trim() == "step" => Ok(Slice::Step),
            _ => Bytes::read(item).map(Slice::Bytes),
        }
    }
    fn toml(&self) -> String {
        self.bytes().map_or_else(|| "\"step\"".to_owned(), |bytes| bytes.toml())
    }
}

/// NCCL's default.
const P2P_CHUNK: Bytes = Bytes(128 << 10);
const IN_FLIGHT: u32 = 4;
/// Slices of NCCL have up to 4 MiB; more is for experiments.
const SLICES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 30);
/// The longest plausible cost of a message.
const COSTS: RangeInclusive<Span> = Span::ZERO..=Span::from_ms(100);

table! {
    /// The library whose collective operations ranks call, and what its messages cost
    pub struct CollectivesSpec {
        /// Library
        library: Library = or_because(library, Origin::Default, "\"mpi\"; \"nccl\" for training");
        /// NCCL: the algorithm of an all-reduce
        algorithm: NcclAlgorithm = or(NcclAlgorithm::Auto);
        /// NCCL: bytes of a slice, a message of a ring; other patterns send half of it or less; "step": a message is the whole block of a step of a ring, as in SimAI
        slice: Slice = or_because(slice, Origin::Default, "\"1 MiB\"; \"step\" by SimAI's own rules") => {
            let fits = slice.bytes().is_none_or(|bytes| SLICES.contains(&bytes));
            let message = || format!("{} is outside {} to {}", slice.plain(), SLICES.start(), SLICES.end());
            t.check(fits, "slice", message, "");
        };
        /// NCCL: bytes of a message of an all-to-all to another server, at most half a slice (`NCCL_P2P_NET_CHUNKSIZE`)
        p2p_chunk: Bytes = or_in(P2P_CHUNK, SLICES);
        /// NCCL: slices under way on a connection; twice as many messages of other patterns
        in_flight: u32 = or_in(IN_FLIGHT, 1..=1024);
        /// NCCL: channels, each with separate connections; 0: as many as each server has GPUs of the group (the server with fewest counts), and one within a server
        channels: u32 = or_in(0, 0..=64);
        /// Time that each message waits at its sender before it leaves: the cost of a send
        message_cost: Span = or_in(Span::ZERO, COSTS);
        /// NCCL, with scale-up links: data for another rail of another server go to the own server's GPU of that rail, and leave by its NIC
        pxn: bool = or(true);
    }
    pub fn read(t, library: Library, slice: Slice);
}

impl CollectivesSpec {
    /// The settings of NCCL, if that is the library; `rates` are those of a GPU to its server and to the network, bytes per second.
    pub(crate) fn nccl(&self, rates: [f64; 2]) -> Option<Nccl> {
        (self.library == Library::Nccl).then(|| Nccl {
            pattern: match self.algorithm {
                NcclAlgorithm::Auto => None,
                NcclAlgorithm::Ring => Some(NcclPattern::Ring),
                NcclAlgorithm::Tree => Some(NcclPattern::Tree),
            },
            slice: self.slice.bytes().map(|bytes| bytes.0),
            p2p_chunk: self.p2p_chunk.0,
            in_flight: self.in_flight,
            channels: Some(self.channels).filter(|channels| *channels > 0),
            rates,
        })
    }

    /// Keys of NCCL that act on nothing, since the library is another one.
    pub(crate) fn idle_key(&self) -> Option<&'static str> {
        let changed = [
            ("collectives.algorithm", self.algorithm != NcclAlgorithm::Auto),
            ("collectives.slice", self.slice != Slice::DEFAULT),
            ("collectives.p2p_chunk", self.p2p_chunk != P2P_CHUNK),
            ("collectives.in_flight", self.in_flight != IN_FLIGHT),
            ("collectives.channels", self.channels != 0),
            ("collectives.pxn", !self.pxn),
        ];
        let idle = changed.into_iter().find(|(_, is_changed)| *is_changed && self.library != Library::Nccl);
        idle.map(|(key, _)| key)
    }

    /// Warns of changed keys of NCCL that act on no operation of the application, or lack scale-up links.
    pub(crate) fn warn_of_idle_keys(
        &self,
        t: &mut Table,
        application: &Application,
        (slice, has_servers): (Slice, bool),
    ) {
        if self.library != Library::Nccl {
            return;
        }
        let mut kinds = kinds_of_calls(application);
        kinds.retain(|kind| is_of_nccl(*kind));
        let has_no_call = kinds.is_empty();
        let is_exchange = |kind: &Kind| matches!(kind, Kind::Alltoall | Kind::Alltoallv);
        let has_no_channels = kinds.iter().all(is_exchange);
        let has_no_exchange = !kinds.iter().any(is_exchange);
        let has_no_reduction = !kinds.contains(&Kind::Allreduce);
        let is_changed = self.algorithm != NcclAlgorithm::Auto;
        t.warn_if_idle("collectives.algorithm", is_changed && has_no_reduction, "ranks call no all-reduce");
        let why = "ranks call no operation of NCCL but all-to-alls, which have no channels";
        t.warn_if_idle("collectives.channels", self.channels != 0 && has_no_channels, why);
        let has_p2p_chunk = self.p2p_chunk != P2P_CHUNK;
        t.warn_if_idle("collectives.p2p_chunk", has_p2p_chunk && has_no_exchange, "ranks call no all-to-all");
        let why = "slice = \"step\" sends a block as one message";
        let is_whole = has_p2p_chunk && !has_no_exchange && self.slice == Slice::Step;
        t.warn_if_idle("collectives.p2p_chunk", is_whole, why);
        let why = "ranks call no operation of NCCL";
        t.warn_if_idle("collectives.slice", self.slice != slice && has_no_call, why);
        t.warn_if_idle("collectives.in_flight", self.in_flight != IN_FLIGHT && has_no_call, why);
        t.warn_if_idle("collectives.pxn", !self.pxn && !has_servers, "there is no topology.scale_up");
    }

    pub(crate) fn sending(&self) -> Sending {
        Sending { cost: self.message_cost, pxn: self.pxn && self.library == Library::Nccl }
    }
}

/// The kinds of collective operations that several ranks call together.
pub(crate) fn kinds_of_calls(application: &Application) -> BTreeSet<Kind> {
    let is_shared =
        |comm: u32| application.comms.get(comm as usize).is_some_and(|comm| comm.members().len() > 1);
    let calls = application.programs.iter().flat_map(|program| &program.calls);
    calls.filter(|call| is_shared(call.comm)).map(|call| call.kind).collect()
}

/// Whether the file chooses NCCL's collectives, whose table is read later.
pub(crate) fn chooses_nccl(t: &Table) -> bool {
    let library = t.item.and_then(|item| item.get("collectives")?.get("library"));
    library.is_some_and(|library| matches!(&library.value, Value::Text(name) if name == "nccl"))
}
