//! `[host]`: hosts and their NICs.

use pauseframe_fabric::{
    FrameOverhead, HashPolicy, HostPortSettings, NicQueue, PortChoice, matches_glob, matching_ports,
};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_topology::Topology;
use pauseframe_units::{BitRate, Bytes, NodeId, Span};
use pauseframe_workload::hosts::Hosts;

/// Maximum time of a slow receiver: a day, as for failures.
const TIME_MAX: Span = Span::from_secs(86_400);
const SECOND: Span = Span::from_secs(1);
/// What network cards of 10 Gb/s and more wait by default.
pub(crate) const INTERRUPT_DELAY: Span = Span::from_us(10);
/// `tcp_limit_output_bytes` of Linux.
pub(crate) const FLOW_SHARE: Bytes = Bytes(1 << 20);

pub(crate) const TSO_SIZE: Bytes = Bytes::kb(64);
pub(crate) const GRO_TIMEOUT: Span = Span::from_us(10);

table! {
    /// Hosts and their NICs
    pub struct HostSpec {
        /// Who moves the data: our own TCP, or a Linux kernel that `pauseframe kernel build` has built (docs/how-to/use-the-linux-kernel.md)
        stack: HostStack = or(HostStack::Simulated);
        /// With the kernel: the hosts that have it, as names or patterns; empty: all. Flows need it at both ends or at none
        kernel_hosts: Vec<String> = or(Vec::new());
        /// With the kernel: settings "key = value" for sysctl, in every host
        sysctl: Vec<String> = or(Vec::new());
        /// With the kernel: the queueing discipline of the network card, in the words of `tc qdisc`; empty: the kernel's default
        qdisc: String = or(String::new());
        /// With the kernel: a network card interrupts it so long after the first frame that it has received or sent, once for all until then, as with `ethtool -C rx-usecs`; 0 s: for each frame
        #[source = "Linux: bnxt_en 10 us, mlx5 8 or 16 us"]
        interrupt_delay: Span = or_in(INTERRUPT_DELAY, Span::ZERO..=Span::from_us(1000));
        /// With the kernel: attributes of the route to the other hosts, in the words of `ip route`, such as "initcwnd 100"
        route: String = or(String::new());
        /// Largest IP packet
        mtu: Bytes = or_in(Bytes(1500), Bytes(576)..=Bytes(9216));
        /// Time that a segment, or a packet of a queue pair, spends in the host before the NIC has it. With the kernel it is added to rx_delay, so that round trips are
        /// as long
        tx_delay: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
        /// Maximum random delay added to tx_delay of each segment, in order
        tx_jitter: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
        /// Size of the token bucket that models a host's link, in both directions: every frame is later by the time of so many bytes, less its
        /// own if the link was idle, so make the link's delay shorter by that time; 0: store and forward
        #[source = "Linux: TBF"]
        wire_burst: Bytes = or_in(Bytes(0), Bytes(0)..=Bytes(1_000_000));
        /// Random delays of the links of hosts; the first row that matches a host counts
        wire_jitters: Vec<WireJitterSpec> = by(of_hosts, hosts, WireJitterSpec::read);
        /// Whether the clocks of hosts (transport.rto_granularity) tick at different times
        ticks_apart: bool = or(false);
        /// Time from the last bit at the NIC to TCP or the queue pair
        rx_delay: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
        /// Time from a completion (of a flow or message) until the application starts the next operation. Runs with
        /// dependent flows or messages use several threads only if this is at least the lookahead of the network
        /// (docs/models/applications.md)
        reaction: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
        /// Queues of the NIC in front of its ring: one for each flow, in turn by frames, with tso by super-packets; one for each
        /// destination; a single one; or CoDel or FQ-CoDel of Linux (docs/models/host-queues.md)
        nic_queue: NicQueue = by(nic_queue, qcn);
        /// Bytes that the stack and the NIC hold before sockets wait for room. With queues for flows the largest share of a flow
        /// (a TCP flow holds a millisecond of its rate, at least two frames or super-packets); otherwise of all flows together
        #[source = "Linux: tcp_limit_output_bytes; cee Table I: 512 KB a NIC"]
        nic_buffer: Bytes = by(nic_buffer, nic_queue);
        /// How a host with several ports (topology.ports_per_host, planes, or several links in a file) chooses one for a flow (docs/models/host-ports.md)
        #[source = "Linux: drivers/net/bonding; mlx5: set_tx_affinity"]
        port_choice: PortChoice = or(HostPortSettings::DEFAULT.choice);
        /// The fields that choose a port by hash. The kernel's own default, layer2, keeps each pair of hosts on one port
        #[source = "Linux: xmit_hash_policy; the layer3+4 of vendors' guides for bonds under RoCE and storage"]
        hash_policy: HashPolicy = or(HostPortSettings::DEFAULT.hash);
        /// Interval at which a host looks at the carrier of its ports; a dead port is noticed at the next look. 0 s: never
        #[source = "Linux: miimon; 802.3ad sets 100 ms"]
        miimon: Span = or_in(HostPortSettings::DEFAULT.carrier, Span::ZERO..=Span::from_secs(10));
        /// Packets that go to a port in turn, with port_choice = "balance-rr"
        #[source = "Linux: packets_per_slave"]
        packets_per_slave: u32 = or_in(HostPortSettings::DEFAULT.packets_per_slave, 1..=65_535);
        /// With port_choice = "mux": ports whose ToR is active at first, as names or patterns ("host*:1"); other hosts begin with their first port
        #[source = "SONiC: MUX_CABLE, state"]
        mux_active: Vec<String> = or(Vec::new());
        /// With port_choice = "mux": interval of the probes by which a ToR knows that a host answers
        #[source = "SONiC: MUX_LINKMGR, LINK_PROBER, interval_v4"]
        link_prober_interval: Span = or_in(Span::from_ms(100), Span(1)..=Span::from_secs(10));
        /// With port_choice = "mux": probes without an answer after which the other ToR becomes active
        #[source = "SONiC: MUX_LINKMGR, LINK_PROBER, negative_signal_count"]
        negative_signal_count: u32 = or_in(3, 1..=100);
        /// How often LACPDUs are sent with 802.3ad: a port on which none arrives is dead after three
        #[source = "IEEE 802.1AX; Linux: lacp_rate"]
        lacp_rate: LacpRate = or(LacpRate::Slow);
        /// Segmentation offload: TCP sends super-packets, which the NIC cuts into frames
        #[source = "Linux: tcp_tso_autosize, tcp_tso_should_defer"]
        tso: bool = or(false);
        /// Data of the largest super-packet
        #[source = "Linux: gso_max_size less headers"]
        tso_size: Bytes = or_in(TSO_SIZE, Bytes(1_000)..=Bytes(65_536));
        /// Receive offload: in-order frames of a connection in one poll of the NIC become one segment
        #[source = "Linux: tcp_gro_receive"]
        gro: bool = or(false);
        /// Longest time that GRO holds data for frames that continue them; SYNs, ACKs without data and frames with PSH or FIN do not wait
        #[source = "Linux: gro_flush_timeout"]
        gro_timeout: Span = or_in(GRO_TIMEOUT, Span::from_ns(1)..=Span::from_ms(10));
        /// Whether frames have header, FCS, preamble and gap (ethernet), or none of them, as in the papers' simulators
        wire_overhead: WireOverhead = or(WireOverhead::Ethernet);
        /// Hosts that read their receive buffer at a limited rate
        slow_receivers: Vec<SlowReceiver> = by(of_hosts, hosts, SlowReceiver::read);
        /// Hosts without a listener: they answer a SYN with RST
        #[source = "RFC 9293 §3.10.7.1"]
        refusing: Vec<String> = or(Vec::new());
        /// Hosts that never answer, as if down
        silent: Vec<String> = or(Vec::new());
    }
    pub fn read(t, hosts: Option<&Hosts>, qcn: bool);
}

/// QCN needs an adapter that limits each destination separately.
fn nic_queue(t: &mut Table, key: &'static str, doc: &str, qcn: bool) -> NicQueue {
    let (default, origin) = if qcn {
        (
            NicQueue::PerDestination,
            Origin::Computed("because QCN limits the queue of one destination".to_owned()),
        )
    } else {
        (NicQueue::PerFlow, Origin::Default)
    };
    t.or_because(key, default, origin, "\"per_flow\"; \"per_destination\" with qcn", doc)
}

/// What sockets may hold in the NIC by default.
pub(crate) fn default_nic_buffer(queue: NicQueue) -> Bytes {
    if queue.has_flow_shares() { FLOW_SHARE } else { Bytes::kb(512) }
}

fn nic_buffer(t: &mut Table, key: &'static str, doc: &str, queue: NicQueue) -> Bytes {
    let origin = if queue.has_flow_shares() {
        Origin::Default
    } else {
        Origin::Computed("because all flows share the NIC's buffer".to_owned())
    };
    let default = (default_nic_buffer(queue), origin);
    let rule = "\"1 MiB\" with queues for flows, otherwise \"512 KB\"";
    t.or_because_in(key, default, Bytes(1)..=Bytes(4_000_000_000), rule, doc)
}

table! {
    /// Hosts with a random delay on their links, for all frames
    pub struct WireJitterSpec {
        /// Name of the host, or a pattern such as "*"
        host: String = try_by(pattern_of_row, names, hosts);
        /// Maximum random delay from the host to its switch, in order
        to_switch: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
        /// Maximum random delay from its switch to the host
        to_host: Span = or_in(Span::ZERO, Span::ZERO..=SECOND);
    }
    pub fn try_read(t, names: &mut Vec<String>, hosts: Option<&Hosts>);
}

table! {
    /// A host that reads its receive buffer at a limited rate
    pub struct SlowReceiver {
        /// Name of the host
        host: String = try_by(host_of_row, names, hosts);
        /// Rate at which the host reads the buffer
        rate: BitRate = required_in(BitRate(1000)..=BitRate::gbps(10_000));
        /// Size of the receive buffer: lossless classes pause the link before it is full, lossy classes drop
        #[source = "cee Table I: as much as a NIC holds on its way out"]
        buffer: Bytes = or_in(Bytes::kb(512), Bytes(576)..=Bytes(4_000_000_000));
        /// When the host starts to read as fast as its link delivers
        stop: Option<Span> = optional_in(Span(1)..=TIME_MAX, "never");
    }
    pub fn try_read(t, names: &mut Vec<String>, hosts: Option<&Hosts>);
}

choices! {
    /// Who moves the data of hosts
    pub enum HostStack {
        /// Our own TCP and RoCE
        Simulated = "simulated",
        /// An unmodified Linux kernel in virtual time
        Kernel = "kernel",
    }
}

choices! {
    /// Interval of LACPDUs
    pub enum LacpRate {
        /// 30 s: a silent port is dead after 90 s
        Slow = "slow",
        /// 1 s: a silent port is dead after 3 s
        Fast = "fast",
    }
}

choices! {
    /// What a packet costs on the wire beyond its IP size
    pub enum WireOverhead {
        /// Header 14, FCS 4, preamble and gap 20; at least 84. Buffers count header and FCS
        Ethernet = "ethernet",
        /// The IP packet alone, on the wire and in buffers, as the papers' simulators do
        None = "none",
    }
}

impl HostSpec {
    /// How hosts with several ports use them.
    pub(crate) fn ports(&self) -> HostPortSettings {
        let lacp = if self.lacp_rate == LacpRate::Fast { Span::from_secs(1) } else { Span::from_secs(30) };
        HostPortSettings {
            choice: self.port_choice,
            hash: self.hash_policy,
            carrier: self.miimon,
            lacp,
            packets_per_slave: self.packets_per_slave,
        }
    }

    /// The nodes of ports whose ToR is active at first.
    pub(crate) fn first_active_ports(&self, topology: &Topology) -> Vec<NodeId> {
        let ports = matching_ports(&self.mux_active, topology);
        ports.into_iter().map(|port| topology.owner(port)).collect()
    }

    /// What a packet costs on the wire beyond its IP size; in VLANs each has an 802.1Q tag.
    pub(crate) fn frame_overhead(&self, has_vlans: bool) -> FrameOverhead {
        let plain = match self.wire_overhead {
            WireOverhead::Ethernet => FrameOverhead::ETHERNET,
            WireOverhead::None => FrameOverhead::NONE,
        };
        if has_vlans { plain.with_vlan_tag() } else { plain }
    }
}

type Row<R> = fn(&mut Table, &mut Vec<String>, Option<&Hosts>) -> Option<R>;

/// Rows about one host each.
fn of_hosts<R>(t: &mut Table, key: &'static str, doc: &str, hosts: Option<&Hosts>, row: Row<R>) -> Vec<R> {
    let mut names: Vec<String> = Vec::new();
    t.rows_or_empty(key, doc, |t| row(t, &mut names, hosts))
}

/// The pattern of a row, which a host of the topology matches.
fn pattern_of_row(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    patterns: &mut Vec<String>,
    hosts: Option<&Hosts>,
) -> Option<String> {
    let pattern: Option<String> = t.required(key, doc);
    let twice = pattern.as_ref().is_some_and(|pattern| patterns.contains(pattern));
    t.check(
        !twice,
        key,
        || "is in an earlier row too".to_owned(),
        "the first row that matches a host counts",
    );
    patterns.extend(pattern.clone());
    if let (Some(pattern), Some(hosts)) = (&pattern, hosts) {
        let is_known = hosts.names().any(|name| matches_glob(pattern, name));
        t.check(is_known, key, || hosts.complaint(pattern), &hosts.suggestion(pattern));
    }
    pattern
}

/// The host of a row: a host of the topology, in one row only.
fn host_of_row(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    names: &mut Vec<String>,
    hosts: Option<&Hosts>,
) -> Option<String> {
    let host: Option<String> = t.required(key, doc);
    let twice = host.as_ref().is_some_and(|name| names.contains(name));
    t.check(!twice, key, || "is in an earlier row too".to_owned(), "one row a host");
    names.extend(host.clone());
    if let (Some(name), Some(hosts)) = (&host, hosts) {
        t.check(hosts.contains(name), key, || hosts.complaint(name), &hosts.suggestion(name));
    }
    host
}
