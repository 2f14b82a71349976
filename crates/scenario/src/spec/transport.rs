//! `[transport]` and `[transports.NAME]`: TCP, queue pairs or datagrams. TCP has the values of a stack, those of a preset above it, and the
//! changes of the file.

use crate::presets::PRESETS;
use crate::stacks::STACKS;
use pauseframe_rdma::cc::dcqcn::DcqcnChanges;
use pauseframe_rdma::cc::{ControlName, RdmaControl};
use pauseframe_rdma::{CnpScope, NotificationPoint, QueuePairSettings, WindowKind};
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Choice, Mistake, Setting, wrong_sort};
use pauseframe_schema::{choices, table};
use pauseframe_transport::{EcnMode, TcpConfig};
use pauseframe_units::{Bytes, Priority, Span};

pub(crate) const CNP_PRIORITY: Priority = Priority::new(6).expect("below 8");
pub(crate) const CNP_DSCP: u8 = 48;

table! {
    /// What carries flows: the values of a preset (`pauseframe presets`), with the changes of the file. Keys below that name a kind exist
    /// for that kind alone
    pub struct TransportSpec {
        /// Named set of values, which implies the kind; keys in the file override them
        preset: String = by(preset);
        /// TCP connections, queue pairs of RoCEv2, or UDP datagrams
        kind: TransportKindName = by(kind, &preset);
        /// Send in the first lossless priority of switch.pfc.priorities
        #[source = "IEEE 802.1Qbb"]
        lossless: bool = or(false);
        /// 802.1p priority of all packets of this transport
        #[source = "IEEE 802.1Q"]
        priority: Priority = by(priority_if_given, given);
        /// Differentiated services code point of its packets; switch.priority_of_dscp can map it to a priority
        #[source = "RFC 2474"]
        dscp: u8 = or_in(0, 0..=63);
        /// What only its kind has
        protocol: Protocol = part(Protocol::read, kind, reorders);
    }
    pub fn read(t, reorders: Option<&str>, given: &mut Option<Priority>);
}

choices! {
    /// What carries flows
    pub enum TransportKindName {
        /// TCP connections
        Tcp = "tcp",
        /// Queue pairs of `RoCEv2`
        Rdma = "rdma",
        /// UDP datagrams without congestion control
        Udp = "udp",
    }
}

/// What only one kind of transport has.
#[derive(Clone, PartialEq, Debug)]
pub enum Protocol {
    /// TCP connections.
    Tcp(Box<TcpSpec>),
    /// Queue pairs.
    Rdma(Box<RdmaSpec>),
    /// Datagrams.
    Udp(DatagramsSpec),
}

table! {
    /// TCP above an operating system's values
    pub struct TcpSpec {
        /// Values of an operating system; preset and file override them. Preset pfabric uses none by default
        stack: String = or_row_below(STACKS, STACKS[0].name);
        /// "10 segments", "bdp" (host link rate times the base RTT of the longest path) or a size
        #[source = "RFC 6928"]
        initial_window: InitialWindow = or(InitialWindow::Segments(10));
        /// Its connections
        config: TcpConfig = part(TcpConfig::read, &stack, reorders);
    }
    pub fn part(t, reorders: Option<&str>);
}

table! {
    /// Queue pairs of RoCEv2
    pub struct RdmaSpec {
        /// Whether data packets are ECN-capable
        #[source = "RFC 3168"]
        ecn: EcnCapability = or(EcnCapability::Off);
        /// Congestion control of queue pairs
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA; Mittal et al., SIGCOMM 2015; Kumar et al., SIGCOMM 2020; htsim"]
        control as "rdma_control": RdmaControl = by(RdmaControl::read);
        /// Changed constants of DCQCN
        dcqcn: DcqcnChanges = part(DcqcnChanges::read);
        /// Additive steps of HPCC before the next multiplicative one: 0 in the simulator's scripts, 5 in the paper's text
        #[source = "Li et al., SIGCOMM 2019: maxStage"]
        hpcc_max_stage: u32 = or_in(0, 0..=1000);
        /// Payload of a full packet of a queue pair: 256, 512, 1024, 2048 or 4096 bytes, 1000 as in ns-3 forks, or "auto", the largest
        /// path MTU that host.mtu less 80 bytes of headers holds, and with HPCC less 42 bytes of telemetry
        #[source = "InfiniBand Architecture Specification §5.2.1; Linux: rxe_param.h"]
        mtu as "rdma_mtu": PathMtu = or(PathMtu::Auto);
        /// Flows N that share a link, for the paper's additive increase W_AI = W_init (1 - eta) / N; the window is then the state
        #[source = "Li et al., SIGCOMM 2019: Algorithm 1"]
        hpcc_flows: Option<u32> = optional_in(1..=1_000_000, "10 Mb/s for each 25 Gb/s of the line rate, as in the simulator's scripts: N = 125");
        /// Queue pairs
        pair: QueuePairSettings = part(QueuePairSettings::read);
        /// Queue pairs of a connection. Each has its own UDP source port, so that ECMP and bonds spread them
        #[source = "NCCL: NCCL_IB_QPS_PER_CONNECTION"]
        qps_per_connection as "rdma_qps_per_connection": u32 = or_in(1, 1..=128);
        /// Each message is cut in equal parts, rounded up to 128 B, one for each queue pair of its connection; off: whole messages take turns
        #[source = "NCCL: NCCL_IB_SPLIT_DATA_ON_QPS"]
        split_data_on_qps as "rdma_split_data_on_qps": bool = or(false);
        /// CNPs
        cnp: NotificationPoint = part(NotificationPoint::read, cnp_limit(control), cnp_origin(control));
        /// Window beside a control that steers a rate, in payload: "fixed" is the line rate times the idle round trip of the longest path
        #[source = "HPCC simulator: HAS_WIN, VAR_WIN"]
        window as "rdma_window": WindowKind = or(WindowKind::None);
        /// 802.1p priority of CNPs
        #[source = "NVIDIA: mlxconfig CNP_802P_PRIO"]
        cnp_priority as "rdma_cnp_priority": Priority = or_in(CNP_PRIORITY, Priority::ALL);
        /// Differentiated services code point of CNPs
        #[source = "NVIDIA: mlxconfig CNP_DSCP"]
        cnp_dscp as "rdma_cnp_dscp": u8 = or_in(CNP_DSCP, 0..=63);
    }
    pub fn part(t);
}

table! {
    /// Datagrams
    #[derive(Copy, Eq)]
    pub struct DatagramsSpec {
        /// Whether datagrams are ECN-capable
        #[source = "RFC 8085 §3.1.7"]
        ecn: EcnCapability = or(EcnCapability::Off);
    }
    pub fn part(t);
}

choices! {
    /// Whether packets say that they may be marked
    pub enum EcnCapability {
        /// Not ECN-capable
        Off = "off",
        /// ECT(0)
        Classic = "classic",
    }
}

impl Protocol {
    /// Reads the keys of `kind`; tables with those of other kinds are checked and act on nothing.
    fn read(t: &mut Table, kind: TransportKindName, reorders: Option<&str>) -> Protocol {
        let read = |t: &mut Table, kind: TransportKindName| match kind {
            TransportKindName::Tcp => Protocol::Tcp(Box::new(TcpSpec::read(t, reorders))),
            TransportKindName::Rdma => Protocol::Rdma(Box::new(RdmaSpec::read(t))),
            TransportKindName::Udp => Protocol::Udp(DatagramsSpec::read(t)),
        };
        if t.is_documenting() {
            for (name, kind) in TransportKindName::NAMES {
                t.under(&format!("transport.kind = {name}"), |t| {
                    read(t, *kind);
                });
            }
        }
        for (name, other) in TransportKindName::NAMES {
            let doc = format!(
                "Keys of kind {name:?}, which act if that is the kind: for sweeps and comparisons over kinds"
            );
            t.idle_section(name, &doc, |t| {
                read(t, *other);
            });
        }
        if t.is_documenting() {
            Protocol::Udp(DatagramsSpec { ecn: EcnCapability::Off })
        } else {
            read(t, kind)
        }
    }
}

impl TransportSpec {
    /// Its TCP settings, if it is TCP.
    pub fn tcp(&self) -> Option<&TcpSpec> {
        if let Protocol::Tcp(tcp) = &self.protocol { Some(tcp) } else { None }
    }

    /// The settings of its queue pairs, if it has them.
    pub fn rdma(&self) -> Option<&RdmaSpec> {
        if let Protocol::Rdma(rdma) = &self.protocol { Some(rdma) } else { None }
    }

    /// Whether its packets may be marked.
    pub fn is_ecn_capable(&self) -> bool {
        match &self.protocol {
            Protocol::Tcp(tcp) => tcp.config.ecn != EcnMode::Off,
            Protocol::Rdma(rdma) => rdma.ecn == EcnCapability::Classic,
            Protocol::Udp(udp) => udp.ecn == EcnCapability::Classic,
        }
    }
}

/// The preset of a kind if the file names none.
const fn preset_of(kind: TransportKindName) -> &'static str {
    match kind {
        TransportKindName::Tcp => PRESETS[0].name,
        TransportKindName::Rdma => "roce_dcqcn",
        TransportKindName::Udp => "udp",
    }
}

/// The kind that a preset implies; TCP presets do not name it.
pub(crate) fn kind_of(preset: &str) -> TransportKindName {
    let row = PRESETS.iter().find(|row| row.name == preset);
    let name = row.and_then(|row| row.value("kind")).unwrap_or("tcp");
    choose_kind(name).unwrap_or(TransportKindName::Tcp)
}

fn choose_kind(name: &str) -> Option<TransportKindName> {
    TransportKindName::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// The kind of the transport in this table of a document.
pub(crate) fn kind_of_table(table: &Item) -> TransportKindName {
    let text = |key| match table.get(key).map(|item| &item.value) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    text("kind")
        .and_then(choose_kind)
        .or_else(|| text("preset").map(kind_of))
        .unwrap_or(TransportKindName::Tcp)
}

fn preset(t: &mut Table, key: &'static str, doc: &str) -> String {
    let kind = t.item.map_or(TransportKindName::Tcp, kind_of_table);
    t.or_row(key, PRESETS, preset_of(kind), doc)
}

fn kind(t: &mut Table, key: &'static str, doc: &str, preset: &str) -> TransportKindName {
    let of_preset = kind_of(preset);
    let origin = Origin::Computed(format!("preset {preset:?}"));
    let kind = t.or_because(key, of_preset, origin, "that of the preset", doc);
    let message = || format!("{:?}, but preset {preset:?} is of kind {:?}", kind.plain(), of_preset.plain());
    let hint = format!("leave one of them out, or set preset = {:?}", preset_of(kind));
    t.check(kind == of_preset, key, message, &hint);
    kind
}

/// Payload of a full packet of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathMtu {
    /// The largest path MTU of `InfiniBand` that fits the MTU of hosts.
    Auto,
    /// This many bytes.
    Bytes(Bytes),
}

impl PathMtu {
    /// What Linux leaves for headers (`rxe_param.h`).
    pub(crate) const HEADERS: u64 = 80;
    pub(crate) const SMALLEST: u64 = 256;
    /// Path MTUs of `InfiniBand`, and the payload of the HPCC simulator.
    const SIZES: [u64; 6] = [PathMtu::SMALLEST, 512, 1000, 1024, 2048, 4096];

    /// Bytes in a network of this MTU whose packets carry this much telemetry.
    pub(crate) fn of(self, mtu: Bytes, telemetry: u32) -> Bytes {
        let room = mtu.0.saturating_sub(PathMtu::HEADERS + u64::from(telemetry));
        match self {
            PathMtu::Bytes(bytes) => bytes,
            PathMtu::Auto => {
                let powers = PathMtu::SIZES.into_iter().filter(|size| size.is_power_of_two());
                Bytes(powers.rev().find(|size| *size <= room).unwrap_or(PathMtu::SMALLEST))
            }
        }
    }
}

impl Setting for PathMtu {
    fn shape() -> Shape {
        Shape::Any("\"auto\" or a size", vec![Shape::Pattern(r"^\s*auto\s*$"), Bytes::shape()])
    }
    fn read(item: &Item) -> Result<PathMtu, Mistake> {
        const EXPECTED: &str = "\"auto\" or a size such as \"4096 B\"";
        let Value::Text(text) = &item.value else { return wrong_sort(item, EXPECTED) };
        if text.trim() == "auto" {
            return Ok(PathMtu::Auto);
        }
        match text.trim().parse::<Bytes>() {
            Ok(bytes) if PathMtu::SIZES.contains(&bytes.0) => Ok(PathMtu::Bytes(bytes)),
            _ => {
                let message = format!("{} is not a path MTU", item.show());
                Err(Mistake { message, hint: "\"auto\", 256, 512, 1000, 1024, 2048 or 4096 B".to_owned() })
            }
        }
    }
    fn toml(&self) -> String {
        match self {
            PathMtu::Auto => "\"auto\"".to_owned(),
            PathMtu::Bytes(bytes) => bytes.toml(),
        }
    }
}

/// How often a receiver may send CNPs, and what shares the limit.
pub(crate) fn cnp_limit(control: RdmaControl) -> (Span, CnpScope) {
    match control.built_in() {
        Some(ControlName::DcqcnPaper) => (Span::from_us(50), CnpScope::QueuePair),
        Some(ControlName::DcqcnHpcc) => (Span::ZERO, CnpScope::QueuePair),
        _ => (Span::from_us(4), CnpScope::Port),
    }
}

fn cnp_origin(control: RdmaControl) -> Origin {
    Origin::Computed(format!("by rdma_control = \"{}\"", control.name()))
}

/// The initial congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// This many segments.
    Segments(u32),
    /// Host link rate times the base RTT of the longest shortest path, rounded up to a segment.
    Bdp,
    /// This many bytes.
    Bytes(Bytes),
}

impl Setting for InitialWindow {
    fn shape() -> Shape {
        let segments = Shape::Pattern(r"^\s*0*[1-9][0-9]*\s*segments?\s*$");
        let forms = vec![segments, Shape::Pattern(r"^\s*bdp\s*$"), Bytes::shape()];
        Shape::Any("\"N segments\", \"bdp\" or a size", forms)
    }
    fn read(item: &Item) -> Result<InitialWindow, Mistake> {
        const EXPECTED: &str = "\"10 segments\", \"bdp\" or a size such as \"30 KB\"";
        let Value::Text(text) = &item.value else { return wrong_sort(item, EXPECTED) };
        let text = text.trim();
        if text == "bdp" {
            return Ok(InitialWindow::Bdp);
        }
        let count = text.strip_suffix("segments").or_else(|| text.strip_suffix("segment")).map(str::trim);
        let window = match count {
            Some(count) => count.parse().ok().map(InitialWindow::Segments),
            None => text.parse().ok().map(InitialWindow::Bytes),
        };
        match window {
            None | Some(InitialWindow::Segments(0) | InitialWindow::Bytes(Bytes(0))) => {
                let message = format!("{} is not an initial window; expected {EXPECTED}", item.show());
                Err(Mistake { message, hint: String::new() })
            }
            Some(window) => Ok(window),
        }
    }
    fn toml(&self) -> String {
        match self {
            InitialWindow::Segments(count) => format!("\"{count} segments\""),
            InitialWindow::Bdp => "\"bdp\"".to_owned(),
            InitialWindow::Bytes(bytes) => bytes.toml(),
        }
    }
}

/// The priority in the file; otherwise it follows from the switches later.
fn priority_if_given(t: &mut Table, key: &'static str, doc: &str, given: &mut Option<Priority>) -> Priority {
    let rule = "by switch.priority_of_dscp, else the first of switch.pfc.priorities if lossless, else the lowest other one";
    *given = t.optional_in(key, Priority::ALL, rule, doc);
    given.unwrap_or_default()
}
