//! `[transport]` and `[transports.NAME]`: the values of a stack, those of a preset above it, and the changes of the
//! file.

use crate::presets::PRESETS;
use crate::stacks::STACKS;
use pauseframe_rdma::cc::dcqcn::DcqcnChanges;
use pauseframe_rdma::{CnpScope, NotificationPoint, QueuePairSettings, WindowKind};
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, wrong_sort};
use pauseframe_schema::{choices, table};
use pauseframe_transport::TcpConfig;
use pauseframe_units::{Bytes, Priority, Span};

const CNP_PRIORITY: Priority = Priority::new(6).expect("below 8");

table! {
    /// TCP: the values of a preset above those of a stack (`pauseframe presets`), with the changes of the file; other
    /// keys have the defaults below
    pub struct TransportSpec {
        /// Named set of values; keys in the file override them
        preset: String = or_row(PRESETS, PRESETS[0].name);
        /// Values of an operating system; preset and file override them. Preset pfabric uses none by default
        stack: String = or_row_below(STACKS, STACKS[0].name);
        /// Send in the first lossless priority of switch.pfc.priorities
        #[source = "IEEE 802.1Qbb"]
        lossless: bool = or(false);
        /// 802.1p priority of all packets of this transport
        #[source = "IEEE 802.1Q"]
        priority: Priority = by(priority_if_given, given);
        /// Differentiated services code point of its packets; switch.priority_of_dscp can map it to a priority
        #[source = "RFC 2474"]
        dscp: u8 = or_in(0, 0..=63);
        /// "10 segments", "bdp" (host link rate times the base RTT of the longest path) or a size
        #[source = "RFC 6928"]
        initial_window: InitialWindow = or(InitialWindow::Segments(10));
        /// TCP
        tcp: TcpConfig = part(TcpConfig::read, &stack, reorders);
        /// TCP connections or RoCEv2 queue pairs. Queue pairs use the keys from rdma_control on and, of those above,
        /// only ecn, lossless, priority and dscp
        kind: TransportKindName = or(TransportKindName::Tcp);
        /// Congestion control of queue pairs
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA; Mittal et al., SIGCOMM 2015; Kumar et al., SIGCOMM 2020; htsim"]
        rdma_control: RdmaControlName = or(RdmaControlName::DcqcnConnectx);
        /// Changed constants of DCQCN
        dcqcn: DcqcnChanges = part(DcqcnChanges::read);
        /// Additive steps of HPCC before the next multiplicative one: 0 in the simulator's scripts, 5 in the paper's text
        #[source = "Li et al., SIGCOMM 2019: maxStage"]
        hpcc_max_stage: u32 = or_in(0, 0..=1000);
        /// Payload of a full packet of a queue pair: 256, 512, 1024, 2048 or 4096 bytes, 1000 as in ns-3 forks, or "auto", the largest
        /// path MTU that host.mtu less 80 bytes of headers holds
        #[source = "InfiniBand Architecture Specification §5.2.1; Linux: rxe_param.h"]
        rdma_mtu: PathMtu = or(PathMtu::Auto);
        /// Flows N that share a link, for the paper's additive increase W_AI = W_init (1 - eta) / N; the window is then the state
        #[source = "Li et al., SIGCOMM 2019: Algorithm 1"]
        hpcc_flows: Option<u32> = optional_in(1..=1_000_000, "10 Mb/s for each 25 Gb/s of the line rate, as in the simulator's scripts: N = 125");
        /// Queue pairs
        pair: QueuePairSettings = part(QueuePairSettings::read);
        /// CNPs
        cnp: NotificationPoint = part(NotificationPoint::read, cnp_limit(rdma_control), cnp_origin(rdma_control));
        /// Window beside a control that steers a rate, in payload: "fixed" is the line rate times the idle round trip of the longest path
        #[source = "HPCC simulator: HAS_WIN, VAR_WIN"]
        rdma_window: WindowKind = or(WindowKind::None);
        /// 802.1p priority of CNPs
        #[source = "NVIDIA: mlxconfig CNP_802P_PRIO"]
        rdma_cnp_priority: Priority = or_in(CNP_PRIORITY, Priority::ALL);
        /// Differentiated services code point of CNPs
        #[source = "NVIDIA: mlxconfig CNP_DSCP"]
        rdma_cnp_dscp: u8 = or_in(48, 0..=63);
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
    }
}

choices! {
    /// Congestion controls of queue pairs
    pub enum RdmaControlName {
        /// None: line rate, PFC alone
        None = "none",
        /// DCQCN as in the paper (SIGCOMM 2015)
        DcqcnPaper = "dcqcn_paper",
        /// DCQCN with the registers of NVIDIA `ConnectX` cards
        DcqcnConnectx = "dcqcn_connectx",
        /// The same with the increase timer that gives the recovery measured on a ConnectX-5
        DcqcnCx5Measured = "dcqcn_cx5_measured",
        /// DCQCN as the HPCC simulator has it: increases that scale with the line rate
        DcqcnHpcc = "dcqcn_hpcc",
        /// TIMELY (SIGCOMM 2015)
        Timely = "timely",
        /// Swift (SIGCOMM 2020), the window for the fabric's delay
        Swift = "swift",
        /// HPCC (SIGCOMM 2019); switches stamp telemetry, 42 bytes of each packet
        Hpcc = "hpcc",
        /// NSCC as htsim has it: unordered delivery, for sprayed packets, with and without trimming (switch.queue)
        Nscc = "nscc",
    }
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
fn cnp_limit(control: RdmaControlName) -> (Span, CnpScope) {
    match control {
        RdmaControlName::DcqcnPaper => (Span::from_us(50), CnpScope::QueuePair),
        RdmaControlName::DcqcnHpcc => (Span::ZERO, CnpScope::QueuePair),
        _ => (Span::from_us(4), CnpScope::Port),
    }
}

fn cnp_origin(control: RdmaControlName) -> Origin {
    Origin::Computed(format!("by rdma_control = \"{}\"", control.plain()))
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
