//! Warns of timeouts without a loss, of queue pairs that send more packets again than they deliver, and of those that wait for their timers. Each
//! transport is judged by its own flows, and a warning names its keys.

use crate::spec::{RdmaSpec, Scenario, TransportSpec};
use pauseframe_fabric::{FlowRecord, Network, PortChoice, PortPriorityReport, Settings};
use pauseframe_rdma::cc::ControlName;
use pauseframe_rdma::{DpOrdering, RetransmissionTimer};
use pauseframe_results::Names;
use pauseframe_schema::value::Choice;
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

/// Queue pairs wait too long for timers if all together, or one of them, spend more than this part of their time on it.
const WAITING_ALL: f64 = 0.05;
const WAITING_ONE: f64 = 0.2;
/// Fewer packets sent again are no collapse.
const REPEATED_LEAST: u64 = 1000;

/// What the flows of a transport did. Failed flows and those of mute hosts say nothing about the network; only their timeouts count.
#[derive(Default)]
struct Tally {
    timeouts: u64,
    repeated: u64,
    /// Of these, packets sent again after a timeout.
    by_timeout: u64,
    delivered: u64,
    waited: Span,
    lived: Span,
    /// The flow that waited for the largest part of its life, and this part.
    longest: Option<(f64, usize, FlowRecord)>,
}

/// What the network lost of the packets of a transport.
struct Losses {
    /// In switches and hosts.
    dropped: u64,
    /// On links and by watchdogs.
    broken: u64,
    trims: u64,
}

/// A transport with its tally.
struct Judged<'a> {
    scenario: &'a Scenario,
    /// Of its table.
    path: String,
    spec: &'a TransportSpec,
    /// Payload of a full packet of a queue pair.
    mtu: u64,
    tally: Tally,
    losses: Losses,
}

/// The warnings of all transports.
pub(super) fn warnings(
    (scenario, settings): (&Scenario, &Settings),
    network: &mut Network,
    names: &Names,
    ports: &[PortPriorityReport],
    now: Time,
) -> Vec<String> {
    let mut tallies = tallies(scenario, network, names, now);
    let named = scenario.transports.iter().map(|(name, _)| format!("transports.{name}"));
    let paths = std::iter::once("transport".to_owned()).chain(named);
    let all = scenario.transport_specs().zip(&settings.transports).zip(paths).zip(0_u16..);
    let judged: Vec<Judged> = all
        .filter_map(|(((spec, used), path), index)| {
            let (tally, losses) = (tallies.remove(&index)?, Losses::of(scenario, spec, ports));
            let mtu = used.rdma().map_or(0, |rdma| u64::from(rdma.pair.mtu));
            Some(Judged { scenario, path, spec, mtu, tally, losses })
        })
        .collect();
    let needless = judged.iter().filter_map(|one| one.needless_timeouts(ports));
    let of_queue_pairs = judged.iter().filter_map(|one| {
        let pairs = one.spec.rdma()?;
        if one.is_collapse() { Some(one.sent_again(pairs)) } else { one.waits(pairs, names) }
    });
    needless.chain(of_queue_pairs).collect()
}

/// The tally of each transport, by its index.
fn tallies(scenario: &Scenario, network: &mut Network, names: &Names, now: Time) -> BTreeMap<u16, Tally> {
    let specs: Vec<&TransportSpec> = scenario.transport_specs().collect();
    let is_mute =
        |host: &str| scenario.host.silent.iter().chain(&scenario.host.refusing).any(|name| name == host);
    let has_mutes = !scenario.host.silent.is_empty() || !scenario.host.refusing.is_empty();
    let mut tallies = BTreeMap::<u16, Tally>::new();
    for (flow, record) in network.packed_flow_records(now).iter().enumerate() {
        let tally = tallies.entry(record.spec.transport).or_default();
        tally.timeouts += u64::from(record.timeouts);
        let pairs = specs.get(usize::from(record.spec.transport)).and_then(|spec| spec.rdma());
        let Some(pairs) = pairs.filter(|_| record.failure.is_none()) else { continue };
        let ends = [record.spec.source, record.spec.destination];
        if !(has_mutes && ends.iter().any(|host| is_mute(&names.node(*host)))) {
            // Each queue pair of a message has its own timer.
            tally.add(flow, &record, if pairs.split_data_on_qps { pairs.qps_per_connection } else { 1 });
        }
    }
    tallies
}

impl Tally {
    fn add(&mut self, flow: usize, record: &FlowRecord, timers: u32) {
        let life = Span(record.end.saturating_since(record.spec.start).0.saturating_mul(u64::from(timers)));
        let waited = record.rdma.waited;
        (self.waited, self.lived) = (self.waited.saturating_add(waited), self.lived.saturating_add(life));
        self.repeated += u64::from(record.retransmits);
        self.by_timeout += record.rdma.repeats_by_timeout;
        self.delivered += record.delivered;
        let share = waited.0 as f64 / life.0.max(1) as f64;
        if self.longest.as_ref().is_none_or(|(most, ..)| share > *most) {
            self.longest = Some((share, flow, *record));
        }
    }
}

impl Losses {
    /// Those at ports, without the priorities that only other transports have.
    fn of(scenario: &Scenario, spec: &TransportSpec, ports: &[PortPriorityReport]) -> Losses {
        let uses = |spec: &TransportSpec, priority| {
            spec.priority == priority || spec.rdma().is_some_and(|pairs| pairs.cnp_priority == priority)
        };
        let is_of_others = |row: &PortPriorityReport| {
            !uses(spec, row.priority) && scenario.transport_specs().any(|other| uses(other, row.priority))
        };
        let own = || ports.iter().filter(|row| !is_of_others(row));
        Losses {
            dropped: own().flat_map(|row| row.drops).sum(),
            broken: own().flat_map(|row| row.lost).sum(),
            trims: own().map(|row| row.trims).sum(),
        }
    }

    fn count(&self) -> u64 {
        self.dropped + self.broken
    }
}

impl Judged<'_> {
    /// Warns of timeouts in a run without any lost or trimmed packet, because all of these timeouts were spurious.
    fn needless_timeouts(&self, ports: &[PortPriorityReport]) -> Option<String> {
        let host = &self.scenario.host;
        let lost_at =
            |port: &PortPriorityReport| port.trims + port.drops.iter().chain(&port.lost).sum::<u64>();
        let explains = !host.silent.is_empty() || !host.refusing.is_empty();
        let (count, path) = (self.tally.timeouts, &self.path);
        if count == 0 || explains || ports.iter().any(|port| lost_at(port) > 0) {
            return None;
        }
        let what = format!("{count} timeouts although no packet was lost: ACKs took longer than the");
        Some(match self.spec.rdma().map(|pairs| &pairs.pair) {
            None => format!(
                "{path}.rto_min: {what} RTO; raise it above {path}.delayed_ack_timeout and the delay in queues and pauses"
            ),
            Some(pair) if !self.is_unordered() && pair.timer == RetransmissionTimer::Adaptive => format!(
                "{path}.rdma_timer: {what} retransmission timer; set it to \"ibta\", or shorten queues and pauses"
            ),
            Some(pair) => {
                let is_short = !self.is_unordered() && pair.timeout_low.is_some();
                let key = if is_short { "rdma_timeout_low" } else { "rdma_timeout" };
                format!("{path}.{key}: {what} retransmission timer; raise it, or shorten queues and pauses")
            }
        })
    }

    fn is_unordered(&self) -> bool {
        self.spec.rdma().is_some_and(|pairs| pairs.control.is_unordered())
    }

    /// Whether more was sent again than arrived.
    fn is_collapse(&self) -> bool {
        let Tally { repeated, delivered, .. } = self.tally;
        repeated > REPEATED_LEAST && repeated * self.mtu > delivered
    }

    /// What made queue pairs send more packets again than they delivered.
    fn sent_again(&self, pairs: &RdmaSpec) -> String {
        let (path, repeated, lost) = (&self.path, self.tally.repeated, self.losses.count());
        let is_by_timer = self.tally.by_timeout * 2 > repeated;
        let why = if is_by_timer && (self.is_unordered() || lost == 0) {
            let is_adaptive = !self.is_unordered() && pairs.pair.timer == RetransmissionTimer::Adaptive;
            let cure = if is_adaptive { "set rdma_timer = \"ibta\"" } else { "set a longer rdma_timeout" };
            format!("their timer expires before the ACKs of what waits in queues; {cure}")
        } else if self.is_unordered() {
            "switches trim or drop them; use a larger switch.buffer, or switch.marker with lower thresholds"
                .to_owned()
        } else if lost == 0 && pairs.pair.receives.is_some() {
            "SENDs find no posted receive; use more rdma_receives or a shorter rdma_repost_delay".to_owned()
        } else if let Some(reason) = self.overtaking(pairs) {
            self.advice_on_order(pairs, &reason)
        } else {
            self.advice_on_losses(pairs)
        };
        format!(
            "{path}.rdma_control: queue pairs sent {repeated} packets again, more than they delivered: {why}"
        )
    }

    /// Why packets overtake each other, if that and not losses made queue pairs send them again. Selective repeat sends about as many again as
    /// are lost.
    fn overtaking(&self, pairs: &RdmaSpec) -> Option<String> {
        let (lost, repeated) = (self.losses.count(), self.tally.repeated);
        let scenario = self.scenario;
        let by_ports = (scenario.host.port_choice == PortChoice::RoundRobin)
            .then_some("host.port_choice = \"balance-rr\"");
        let reason = scenario.routing.reorders().or(by_ports);
        let is_explained = pairs.pair.selective_repeat && lost * 2 >= repeated;
        match reason {
            Some(reason) if !is_explained => Some(format!(" ({reason})")),
            _ => (lost == 0).then(String::new),
        }
    }

    fn advice_on_order(&self, pairs: &RdmaSpec, reason: &str) -> String {
        let is_in_order = pairs.pair.dp_ordering == DpOrdering::InOrder;
        let is_able = is_in_order && !pairs.pair.uses_send && !pairs.control.reads_telemetry();
        let by_ports = self.scenario.host.port_choice == PortChoice::RoundRobin;
        let cures = [
            ("rdma_dp_ordering = \"ooo_rw\"", is_able),
            ("a larger rdma_ooo_window", !is_in_order),
            ("rdma_control = \"nscc\"", true),
            (
                "routing by flow or flowlet (\"ecmp\", \"letflow\")",
                self.scenario.routing.reorders().is_some(),
            ),
            ("a host.port_choice by flow", by_ports),
        ];
        format!("packets that others overtake{reason} are taken for lost{}", list_of_cures(&cures))
    }

    fn advice_on_losses(&self, pairs: &RdmaSpec) -> String {
        let Losses { dropped, broken, .. } = self.losses;
        let in_buffers = dropped >= broken;
        let has_control = pairs.control.built_in() != Some(ControlName::None);
        let cures = [
            ("one of DCQCN", in_buffers && !has_control),
            ("lossless = true", in_buffers && !self.spec.lossless),
            ("a larger switch.buffer", in_buffers),
            ("fewer damaged frames and dead links", !in_buffers),
            ("rdma_selective_repeat", !pairs.pair.selective_repeat),
            ("rdma_tx_window", pairs.pair.tx_window.is_none()),
        ];
        let how = match (pairs.pair.selective_repeat, has_control || !in_buffers) {
            (true, _) => format!("{} packets were lost", dropped + broken),
            (false, true) => "each loss sends much again".to_owned(),
            (false, false) => {
                "go-back-N without a reaction to losses fills queues with packets that switches drop"
                    .to_owned()
            }
        };
        how + &list_of_cures(&cures)
    }

    /// Warns of queue pairs that spent much of their time without progress until a retransmission timer expired. Without a loss the wait has
    /// another cause, and the timeouts have their warning.
    fn waits(&self, pairs: &RdmaSpec, names: &Names) -> Option<String> {
        let Tally { waited, lived, longest, .. } = &self.tally;
        let (share, flow, record) = longest.as_ref()?;
        let of_all = waited.0 as f64 / lived.0.max(1) as f64;
        let has_cause = self.losses.count() + self.losses.trims > 0 || !self.scenario.failure.is_empty();
        if of_all <= WAITING_ALL && *share <= WAITING_ONE || !has_cause {
            return None;
        }
        let (path, timeout) = (&self.path, pairs.pair.timeout);
        let (key, timer) = if self.is_unordered() {
            ("rdma_timeout", format!("rdma_timeout = {timeout}"))
        } else {
            let timer = pairs.pair.timer.name();
            ("rdma_timer", format!("rdma_timer = \"{timer}\", rdma_timeout = {timeout}"))
        };
        // Both ends of a flow may wait at once.
        let percent = |share: f64| share.min(1.0) * 100.0;
        Some(format!(
            "{path}.{key}: queue pairs spent {:.0} % of their time without progress until a retransmission timer expired \
             ({timer}), flow {flow} from {} to {} {:.0} %: {}",
            percent(of_all),
            names.node(record.spec.source),
            names.node(record.spec.destination),
            percent(*share),
            self.cure_for_waits(pairs)
        ))
    }

    /// What helps queue pairs that wait for timers: of what is not set already.
    fn cure_for_waits(&self, pairs: &RdmaSpec) -> String {
        if self.is_unordered() {
            return "set a longer rdma_timeout if queues delay ACKs, or avoid the losses (switch.marker, switch.buffer)"
                .to_owned();
        }
        let avoids = if !self.scenario.failure.is_empty() {
            "shorten the time until hosts and network have noticed a failure (host.miimon, routing.convergence)"
        } else if self.spec.lossless || self.losses.dropped == 0 {
            "avoid the losses"
        } else {
            "avoid the losses (lossless, switch.marker, switch.buffer)"
        };
        let less = [
            ("rdma_selective_repeat", !pairs.pair.selective_repeat),
            ("rdma_timer = \"adaptive\"", pairs.pair.timer != RetransmissionTimer::Adaptive),
            ("a smaller rdma_ooo_window", pairs.pair.dp_ordering == DpOrdering::OooRw),
            ("rdma_tx_window", pairs.pair.tx_window.is_none()),
        ];
        let less = those_that_help(&less);
        let rest = if less.is_empty() {
            String::new()
        } else {
            format!(", or lose less by each ({})", less.join(", "))
        };
        format!("{avoids}{rest}")
    }
}

fn those_that_help<'a>(cures: &[(&'a str, bool)]) -> Vec<&'a str> {
    cures.iter().filter(|(_, helps)| *helps).map(|(cure, _)| *cure).collect()
}

/// "; use a, b or c"; empty if no cure helps.
fn list_of_cures(cures: &[(&str, bool)]) -> String {
    match those_that_help(cures).as_slice() {
        [] => String::new(),
        [one] => format!("; use {one}"),
        [rest @ .., last] => format!("; use {} or {last}", rest.join(", ")),
    }
}
