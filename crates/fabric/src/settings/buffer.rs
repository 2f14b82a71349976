//! `[switch.buffer]`: who owns the bytes of a switch (docs/models/buffers.md).

use super::linux_switch::SwitchKind;
use crate::marker::BUFFER_MAX;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{kinds, table};
use pauseframe_units::Bytes;

/// Factors of the dynamic threshold.
pub(super) const ALPHAS: Above = Above(0.0, 1e6, "");

kinds! {
    /// Buffer policies
    #[derive(Copy)]
    pub enum BufferPolicy {
        "per_port" => PerPort(PerPortBuffer);
        "shared" => Shared(SharedBuffer);
        "ideal_output_queued" => IdealOutputQueued(IdealOutputQueuedBuffer);
    }
    pub fn read(t, is_linux: bool);
}

table! {
    /// Each egress port owns `size` bytes for lossy traffic; each ingress (port, priority) owns `size` for lossless
    #[derive(Copy)]
    pub struct PerPortBuffer as "PerPort" {
        /// Bytes per egress port for lossy traffic, and per ingress (port, priority) for lossless traffic
        #[source = "bolt §IV-A2: 225 KB a port"]
        size: Bytes = by(size_of_port, is_linux);
    }
    pub fn read(t, is_linux: bool);
}

/// A queue of Linux has no limit in bytes unless its `tc` command gives one.
fn size_of_port(t: &mut Table, key: &'static str, doc: &str, is_linux: bool) -> Bytes {
    let default = if is_linux {
        (BUFFER_MAX, Origin::Computed("because a Linux switch counts packets (queue_packets)".to_owned()))
    } else {
        (Bytes::kb(225), Origin::Default)
    };
    t.or_because_in(
        key,
        default,
        Bytes(1)..=BUFFER_MAX,
        "\"225 KB\"; \"4 GB\", which is no limit, with kind = \"linux\"",
        doc,
    )
}

table! {
    /// One pool for the switch, shared by dynamic thresholds: a queue may hold alpha times what is free
    #[derive(Copy)]
    pub struct SharedBuffer as "Shared" {
        /// Bytes per switch, including headroom and reserved bytes
        #[source = "the packet buffer of bolt's switch, the G8264"]
        size: Bytes = or_in(Bytes::kb(9_000), Bytes(1)..=BUFFER_MAX);
        /// Dynamic threshold: a queue may hold alpha times the free pool
        #[source = "Choudhury and Hahne 1998"]
        alpha: f64 = or_in(1.0, ALPHAS);
        /// Bytes reserved for each (port, priority) besides the pool
        reserved: Bytes = or_in(Bytes::ZERO, Bytes::ZERO..=BUFFER_MAX);
        /// Bytes for lossy traffic only; the rest is for lossless traffic
        #[source = "SONiC: egress_lossy_pool"]
        egress_pool: Option<Bytes> = optional_in(Bytes(1)..=BUFFER_MAX, "none: one pool for all") => {
            let message = || format!("{} is not below size ({size})", egress_pool.unwrap_or_default());
            t.check(egress_pool.is_none_or(|pool| pool < size), "egress_pool", message, "lower it");
        };
    }
    pub fn read(t, _is_linux: bool);
}

table! {
    /// N-fold speed-up: each ingress (port, priority) owns `size` bytes, an egress queue may hold what all of them hold
    #[derive(Copy)]
    pub struct IdealOutputQueuedBuffer as "IdealOutputQueued" {
        /// Bytes per ingress (port, priority); an egress queue may hold the sum of all
        #[source = "cee §III-B4, Table I: 100 KB a port"]
        size: Bytes = or_in(Bytes::kb(100), Bytes(1)..=BUFFER_MAX);
    }
    pub fn read(t, _is_linux: bool);
}

impl BufferPolicy {
    /// Reads the table of switches of a kind; its policy may be left out.
    pub fn read_table(t: &mut Table, kind: SwitchKind) -> BufferPolicy {
        let doc = "Buffer per port, one shared pool, or buffer per input. A size alone is short for per_port";
        let default = Some(("per_port", Origin::Default, "\"per_port\""));
        let fallback = BufferPolicy::PerPort(PerPortBuffer { size: Bytes::kb(225) });
        BufferPolicy::read(t, "policy", default, doc, kind == SwitchKind::Linux).unwrap_or(fallback)
    }

    /// Bytes of a port, or of a switch with a shared buffer.
    pub fn buffer_size(self) -> Bytes {
        match self {
            BufferPolicy::PerPort(PerPortBuffer { size })
            | BufferPolicy::Shared(SharedBuffer { size, .. })
            | BufferPolicy::IdealOutputQueued(IdealOutputQueuedBuffer { size }) => size,
        }
    }

    /// Bytes of a shared buffer for lossy traffic only.
    pub(crate) fn lossy_pool_size(self) -> Option<Bytes> {
        if let BufferPolicy::Shared(shared) = self { shared.egress_pool } else { None }
    }
}
