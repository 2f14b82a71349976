//! `[switch.linux]`: a Linux machine as a switch.

use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_units::Span;

const INTERRUPT_DELAY: Span = Span::from_us(10);
const RING: u32 = 256;

choices! {
    /// What forwards
    pub enum SwitchKind {
        /// Switching hardware: it forwards every frame by itself, at line rate
        Hardware = "hardware",
        /// A Linux machine: network cards with interrupts, GRO, one CPU, and queues of super-packets
        Linux = "linux",
    }
}

table! {
    /// A Linux machine as a switch (docs/models/linux-switch.md)
    #[derive(Copy)]
    pub struct LinuxSwitchSettings as "LinuxSwitch" {
        /// In-order segments of a connection that a poll of the network card finds travel on as one packet, up to the egress
        #[source = "Linux: napi_gro_receive, tcp_gro_receive"]
        gro: bool = or(true);
        /// A network card interrupts the CPU so long after the first frame that waits in its ring, as with `ethtool -C rx-usecs`; 0 s: for each frame
        #[source = "Linux: bnxt_en 10 us, mlx5 8 or 16 us, igb and e1000e up to 250 us"]
        interrupt_delay: Span = or_in(INTERRUPT_DELAY, Span::ZERO..=Span::from_ms(10));
        /// Frames that may wait in the receive ring of a port; more are dropped
        #[source = "Linux: igb and e1000e 256, ixgbe 512"]
        ring: u32 = or_in(RING, 1..=65_536);
        /// Packets, merged ones counted once, that the CPU forwards in a second, over all ports
        packets_per_second: Option<u64> = optional_in(1..=1_000_000_000_000, "none: forwarding takes no time") => {
            // A poll for each frame that takes no time leaves nothing in the ring and finds nothing to merge.
            let is_immediate = interrupt_delay == Span::ZERO && packets_per_second.is_none();
            let why = "interrupt_delay is 0 s and forwarding takes no time, so no frame waits";
            t.warn_if_idle("gro", is_immediate && !gro, why);
            t.warn_if_idle("ring", is_immediate && ring != RING, why);
        };
    }
    pub fn read(t);
}

impl LinuxSwitchSettings {
    /// Time that the CPU takes for a packet.
    pub(crate) fn forwarding_time(self) -> Span {
        self.packets_per_second.map_or(Span::ZERO, |rate| Span(Span::from_secs(1).0 / rate))
    }

    /// Reads `linux` of a switch that is one; refuses it otherwise.
    pub fn read_for(
        t: &mut Table,
        key: &'static str,
        _: &str,
        kind: SwitchKind,
    ) -> Option<LinuxSwitchSettings> {
        if t.is_documenting() {
            return Some(t.section(key, LinuxSwitchSettings::read));
        }
        let is_linux = kind == SwitchKind::Linux;
        let hint = "write switch.kind = \"linux\"";
        t.check(is_linux || !t.has(key), key, || "the switches are no Linux machines".to_owned(), hint);
        (is_linux || t.has(key)).then(|| t.section(key, LinuxSwitchSettings::read))
    }
}
