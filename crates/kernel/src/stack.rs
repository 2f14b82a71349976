//! A machine as the stack of hosts of a network.

use crate::control::{self, Command, Report};
use crate::machine::{Machine, MachineError};
use crate::samples;
use crate::setup::RunFolder;
use pauseframe_fabric::host_ports::bond::ipv4;
use pauseframe_fabric::{
    ExternalStack, ExternalStackFailure, ExternalStackFrame, ExternalStackOrder, ExternalStackReport,
    ExternalStackSamples,
};
use pauseframe_transport::{ConnectionFailure, EcnCodepoint};
use pauseframe_units::{NodeId, Time};
use std::collections::{BTreeMap, VecDeque};

/// The device that the agent talks by.
const CONTROL: usize = 0;
/// Time zero of the network is a multiple of this in the kernel's time, in nanoseconds: timer ticks are at full milliseconds.
const BOOT_GRID: u64 = 1_000_000_000;
/// Simulated time that the kernel has to boot, in nanoseconds.
const BOOT_MAX: u64 = 600 * BOOT_GRID;
const PICOSECONDS: u64 = 1_000;
/// Programs start so early that they have come to rest by time zero: all have ended, or nothing happens for so long, in nanoseconds.
/// Time zero is a multiple of it.
const REST: u64 = 1_000_000;
/// Programs that do not come to rest have so many nanoseconds before time zero.
const PROGRAM_START_MAX: u64 = 100 * REST;
/// Nanoseconds that counters need at most from the agent to the network.
const COUNT_AHEAD: u64 = 2_000;

/// The MAC address of the device that the agent talks by.
pub const CONTROL_MAC: [u8; 6] = [2, 0xff, 0xff, 0, 0, 0];

/// Intervals in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// From the first frame that a device has received or sent until it calls the kernel.
    pub(crate) interrupt_delay: u64,
    /// Between two samples of sockets and counters.
    pub(crate) sample_every: Option<u64>,
    /// Between two reports of what connections have counted, for time series of flows.
    pub(crate) count_every: Option<u64>,
}

impl Timing {
    /// The kernel's times of the first sample and of the first report, which comes shortly before the network samples; `u64::MAX`: none.
    fn first(&self, zero: u64) -> (u64, u64) {
        let sample = self.sample_every.map_or(u64::MAX, |every| zero + every);
        let count = self.count_every.map_or(u64::MAX, |every| zero + every - COUNT_AHEAD.min(every / 2));
        (sample, count)
    }
}

/// The hosts of a kernel.
#[derive(Debug)]
pub struct KernelStack {
    machine: Machine,
    /// Behind the machine, which must end before it goes.
    folder: RunFolder,
    /// By position: the node of the host whose device is one behind it.
    hosts: Vec<NodeId>,
    device_of: BTreeMap<NodeId, usize>,
    /// The kernel's time at time zero of the network.
    zero: u64,
    commands: Vec<Command>,
    /// Frames with commands for which the agent's device had no buffer yet.
    unsent_frames: VecDeque<Vec<u8>>,
    /// Devices that the kernel may have to be called for, and when.
    interrupts: BTreeMap<usize, u64>,
    timing: Timing,
    /// The kernel's time of the next sample; `u64::MAX`: none.
    next_sample: u64,
    /// The kernel's time of the next report of all counters; `u64::MAX`: none.
    next_count: u64,
    /// Kicks that the network has not seen, each at its time.
    kicks: Vec<(usize, u64)>,
    senders: Vec<NodeId>,
    reports: Vec<(u32, ExternalStackReport)>,
    /// What the agent reported before time zero.
    early_reports: Vec<Report>,
    /// Programs did not come to rest before time zero.
    is_late: bool,
    /// Programs of the user, and their statuses once they have ended.
    programs: Vec<(String, Option<u32>)>,
    /// Reports of all counters that the agent still owes.
    counts_due: u32,
    /// The network wants to know when these have frames: none was left when it asked last.
    is_silent: Vec<bool>,
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: MachineError) -> ExternalStackFailure {
    ExternalStackFailure(error.to_string())
}

/// Lets the kernel boot until its agent has set the hosts up.
fn wait_for_agent(machine: &mut Machine) -> Result<(), MachineError> {
    machine.wait()?;
    while !is_ready(machine)? {
        if machine.devices() > CONTROL {
            machine.call(machine.now(), [CONTROL])?;
        }
        let next = machine.requested().filter(|next| *next < BOOT_MAX);
        let next = next.ok_or_else(|| MachineError::Ended(machine.last_lines()))?;
        // It does not wait for the network while it boots.
        machine.advance(next, next)?;
    }
    Ok(())
}

impl KernelStack {
    /// Boots a machine whose devices are the agent's and one for each of `hosts`, in their order.
    ///
    /// # Errors
    /// If the kernel or its agent fails.
    pub(crate) fn boot(
        mut machine: Machine,
        hosts: &[NodeId],
        programs: Vec<String>,
        timing: Timing,
        folder: RunFolder,
        refusals: impl FnOnce() -> Option<MachineError>,
    ) -> Result<KernelStack, MachineError> {
        wait_for_agent(&mut machine).map_err(|error| refusals().unwrap_or(error))?;
        let zero = machine.now().next_multiple_of(BOOT_GRID);
        for device in 0..machine.devices() {
            while machine.take_frame(device)?.is_some() {}
            machine.want_kicks(device, !machine.is_shared())?;
        }
        machine.call(machine.now(), 0..machine.devices())?;
        while let Some(next) = machine.requested().filter(|next| *next < zero) {
            machine.advance(next, zero)?;
        }
        machine.take_kicks();
        machine.close_listeners();
        let device_of = hosts.iter().copied().zip(1..).collect();
        let mut stack = KernelStack {
            machine,
            folder,
            hosts: hosts.to_vec(),
            device_of,
            zero,
            commands: Vec::new(),
            unsent_frames: VecDeque::new(),
            interrupts: BTreeMap::new(),
            timing,
            next_sample: u64::MAX,
            next_count: u64::MAX,
            kicks: Vec::new(),
            senders: Vec::new(),
            reports: Vec::new(),
            early_reports: Vec::new(),
            is_late: false,
            programs: programs.into_iter().map(|program| (program, None)).collect(),
            counts_due: 0,
            is_silent: vec![true; hosts.len() + 1],
        };
        if !stack.programs.is_empty() {
            stack.start_programs()?;
        }
        (stack.next_sample, stack.next_count) = timing.first(stack.zero);
        Ok(stack)
    }

    /// Starts the programs, and moves time zero behind what they do at once: what they set holds for the first flow. The frames that
    /// they send wait in their rings.
    fn start_programs(&mut self) -> Result<(), MachineError> {
        let start = self.zero;
        let mut now = start;
        self.commands.push(Command::Begin);
        loop {
            self.send_commands(now)?;
            let due = self.interrupts.remove(&CONTROL).map(|_| CONTROL);
            self.machine.run(now, due.as_slice(), now)?;
            while let Some(frame) = self.machine.take_frame(CONTROL)? {
                self.early_reports.extend(control::reports(&frame).unwrap_or_default());
                self.interrupts.insert(CONTROL, now);
            }
            self.machine.want_kicks(CONTROL, !self.machine.is_shared())?;
            let has_calls = !self.interrupts.is_empty();
            match self.machine.requested() {
                _ if has_calls => {}
                Some(next) if next <= now + REST => now = next.max(now),
                _ => break,
            }
            if now > start + PROGRAM_START_MAX {
                self.is_late = true;
                break;
            }
        }
        self.zero = now.max(self.machine.now()).next_multiple_of(REST);
        while let Some(next) = self.machine.requested().filter(|next| *next < self.zero) {
            self.machine.run(next, &[], next)?;
        }
        // The network reads the reports at time zero, and takes what waits in the rings.
        for device in 0..self.is_silent.len() {
            if device == CONTROL || self.machine.has_frames(device)? {
                self.kicks.push((device, self.zero));
            }
        }
        Ok(())
    }

    /// Sends commands to the agent, as many as its device has buffers for.
    fn send_commands(&mut self, now: u64) -> Result<(), MachineError> {
        let mut commands = std::mem::take(&mut self.commands);
        control::sort_listeners_first(&mut commands);
        self.unsent_frames.extend(control::frames(&commands));
        while let Some(frame) = self.unsent_frames.front() {
            if !self.machine.put_frame(CONTROL, frame)? {
                break;
            }
            self.unsent_frames.pop_front();
            self.interrupts.insert(CONTROL, now);
        }
        Ok(())
    }

    fn kernel_time(&self, time: Time) -> u64 {
        self.zero + time.0 / PICOSECONDS
    }

    fn network_time(&self, nanoseconds: u64) -> Time {
        Time(nanoseconds.saturating_sub(self.zero).saturating_mul(PICOSECONDS))
    }

    fn device(&self, host: NodeId) -> usize {
        self.device_of[&host]
    }

    /// When something is due, in the kernel's time.
    fn next(&self) -> Option<u64> {
        let kick = self.kicks.iter().map(|(_, at)| *at).min();
        let interrupt = self.interrupts.values().copied().min();
        let sample = Some(self.next_sample.min(self.next_count)).filter(|time| *time < u64::MAX);
        [kick, interrupt, self.machine.requested(), sample].into_iter().flatten().min()
    }

    /// The device calls the kernel once for all that it receives and sends until then.
    fn interrupt_soon(&mut self, device: usize, now: Time) {
        let at = self.kernel_time(now) + self.timing.interrupt_delay;
        self.interrupts.entry(device).or_insert(at);
    }

    /// Devices with frames of which the network does not know, for a kernel that kicks none.
    fn find_frames(&mut self, now: u64) -> Result<(), MachineError> {
        for device in 0..self.is_silent.len() {
            if self.is_silent[device] && self.machine.has_frames(device)? {
                self.kicks.push((device, now));
            }
        }
        Ok(())
    }

    /// Hands kicks over that are due at `now`: reports of the agent, and hosts that send.
    fn take_kicks(&mut self, now: u64) -> Result<(), MachineError> {
        self.kicks.extend(self.machine.take_kicks());
        let due: Vec<usize> =
            self.kicks.extract_if(.., |(_, at)| *at <= now).map(|(device, _)| device).collect();
        for device in due {
            if device != CONTROL {
                self.senders.push(self.hosts[device - 1]);
                continue;
            }
            for report in std::mem::take(&mut self.early_reports) {
                self.take_report(report);
            }
            while let Some(frame) = self.machine.take_frame(CONTROL)? {
                for report in control::reports(&frame).unwrap_or_default() {
                    self.take_report(report);
                }
            }
            self.machine.want_kicks(CONTROL, !self.machine.is_shared())?;
            self.interrupts.insert(CONTROL, now);
        }
        Ok(())
    }

    fn take_report(&mut self, report: Report) {
        let (endpoint_key, report) = match report {
            Report::Connected(endpoint_key) => (endpoint_key, ExternalStackReport::Connected),
            Report::Complete(endpoint_key) => (endpoint_key, ExternalStackReport::Complete),
            Report::Failed(endpoint_key, error) => (endpoint_key, ExternalStackReport::Failed(cause(error))),
            Report::Drained(endpoint_key) => (endpoint_key, ExternalStackReport::Drained),
            Report::Counted { endpoint_key, flow, delivered, retransmits, timeouts } => {
                (endpoint_key, ExternalStackReport::Counted { flow, delivered, retransmits, timeouts })
            }
            Report::ProgramEnded(number, status) => {
                if let Some((_, ended)) = self.programs.get_mut(number as usize) {
                    *ended = Some(status);
                }
                return;
            }
            Report::CountedAll => {
                self.counts_due = self.counts_due.saturating_sub(1);
                return;
            }
            Report::Ready => return,
        };
        self.reports.push((endpoint_key, report));
    }

    fn count_all(&mut self) {
        self.commands.push(Command::CountAll);
        self.counts_due += 1;
    }

    fn run_at(&mut self, now: u64, until: u64) -> Result<(), MachineError> {
        self.take_kicks(now)?;
        if now >= self.next_sample {
            self.commands.push(Command::Sample(now - self.zero));
            self.next_sample += self.timing.sample_every.unwrap_or(u64::MAX);
        }
        if now >= self.next_count {
            self.count_all();
            self.next_count += self.timing.count_every.unwrap_or(u64::MAX);
        }
        loop {
            self.send_commands(now)?;
            let due: Vec<usize> =
                self.interrupts.extract_if(.., |_, at| *at <= now).map(|(device, _)| device).collect();
            // What leaves the kernel now may come back at once, and commands may wait for buffers: then it must not run ahead.
            let is_quiet =
                self.reports.is_empty() && self.senders.is_empty() && self.unsent_frames.is_empty();
            // Nor may it run past what the device or the sampler does next: time would go backwards.
            let until = until.min(self.next_sample).min(self.next_count);
            let until = self.interrupts.values().copied().fold(until, u64::min);
            if !self.machine.run(now, &due, if is_quiet { until } else { now })? {
                return self.check_unsent_frames();
            }
            if self.machine.is_shared() {
                self.find_frames(now)?;
            }
            self.take_kicks(now)?;
        }
    }

    /// A kernel that sleeps for good while commands wait has no buffers for the agent.
    fn check_unsent_frames(&self) -> Result<(), MachineError> {
        if self.unsent_frames.is_empty() || self.machine.requested().is_some() {
            return Ok(());
        }
        let what =
            "the kernel takes no orders for its agent: too many connections change at once; use fewer flows";
        Err(MachineError::Protocol(what.to_owned(), self.machine.last_lines()))
    }
}

/// Whether the agent has reported that it takes orders.
fn is_ready(machine: &mut Machine) -> Result<bool, MachineError> {
    if machine.devices() == 0 {
        return Ok(false);
    }
    while let Some(frame) = machine.take_frame(CONTROL)? {
        if control::reports(&frame).is_some_and(|reports| reports.contains(&Report::Ready)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What an error number of a socket means for its flow.
fn cause(error: u32) -> ConnectionFailure {
    match error as i32 {
        libc::ECONNREFUSED => ConnectionFailure::Refused,
        libc::ECONNRESET | libc::EPIPE => ConnectionFailure::Reset,
        libc::ETIMEDOUT => ConnectionFailure::DataTimeout,
        _ => ConnectionFailure::SynTimeout,
    }
}

impl ExternalStack for KernelStack {
    fn owns_host(&self, host: NodeId) -> bool {
        self.device_of.contains_key(&host)
    }

    fn next_event_time(&self) -> Option<Time> {
        if !self.commands.is_empty() {
            return Some(Time::ZERO);
        }
        self.next().map(|time| self.network_time(time))
    }

    fn run_until(&mut self, now: Time, until: Time) -> Result<(), ExternalStackFailure> {
        let (now, until) = (self.kernel_time(now), self.kernel_time(until));
        self.run_at(now, until).map_err(failure)
    }

    fn receive_frame(&mut self, host: NodeId, frame: &[u8], now: Time) -> Result<(), ExternalStackFailure> {
        let device = self.device(host);
        if !self.machine.put_frame(device, frame).map_err(failure)? {
            return Err(ExternalStackFailure(
                "the kernel has no buffer for a frame that has arrived".to_owned(),
            ));
        }
        self.interrupt_soon(device, now);
        Ok(())
    }

    fn take_frame(
        &mut self,
        host: NodeId,
        now: Time,
    ) -> Result<Option<ExternalStackFrame>, ExternalStackFailure> {
        let device = self.device(host);
        let frame = self.machine.take_frame(device).map_err(failure)?;
        if self.is_silent[device] == frame.is_some() {
            self.is_silent[device] = frame.is_none();
            let wants_kicks = frame.is_none() && !self.machine.is_shared();
            self.machine.want_kicks(device, wants_kicks).map_err(failure)?;
        }
        Ok(frame.map(|frame| {
            self.interrupt_soon(device, now);
            describe(frame)
        }))
    }

    fn take_ready_hosts(&mut self) -> Vec<NodeId> {
        let mut senders = std::mem::take(&mut self.senders);
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    fn execute_order(&mut self, host: NodeId, endpoint_key: u32, order: &ExternalStackOrder, now: Time) {
        let (peer, delay) = match order {
            ExternalStackOrder::Open(opening) => {
                (ipv4(opening.peer), opening.start.saturating_since(now).0.div_ceil(PICOSECONDS))
            }
            _ => ([0; 4], 0),
        };
        let host = (self.device(host) - 1) as u16;
        self.commands.push(Command::Order { host, endpoint_key, peer, delay, order: *order });
    }

    fn take_reports(&mut self) -> Vec<(u32, ExternalStackReport)> {
        std::mem::take(&mut self.reports)
    }

    fn take_stack_samples(&mut self) -> ExternalStackSamples {
        samples::parse(&self.folder.take_samples(), &self.hosts)
    }

    fn has_running_programs(&self) -> bool {
        self.programs.iter().any(|(_, status)| status.is_none())
    }

    fn stack_warnings(&self) -> Vec<String> {
        let note = |(program, status): &(String, Option<u32>)| match status {
            Some(0) => None,
            Some(status) => Some(format!("program {program} ended with status {status}")),
            None => Some(format!("program {program} still ran when the run ended")),
        };
        let late = self.is_late.then(|| {
            format!(
                "programs of --exec were still busy {} ms after their start, when time zero came: what they set may not \
                 hold for the first flows; start those later",
                PROGRAM_START_MAX / 1_000_000
            )
        });
        late.into_iter().chain(self.programs.iter().filter_map(note)).collect()
    }

    fn report_final_counters(&mut self, now: Time) -> Result<(), ExternalStackFailure> {
        let mut now = self.kernel_time(now).max(self.machine.now());
        self.count_all();
        while self.counts_due > 0 {
            self.run_at(now, now).map_err(failure)?;
            // Its answer takes a few nanoseconds.
            match self.next() {
                _ if self.counts_due == 0 => {}
                Some(next) if next < now + BOOT_GRID => now = next.max(now),
                _ => return Err(ExternalStackFailure("the agent does not report its counters".to_owned())),
            }
        }
        Ok(())
    }
}

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the network must know of a frame.
fn describe(bytes: Vec<u8>) -> ExternalStackFrame {
    let destination = match bytes.get(..6) {
        Some([2, 0, 0, a, b, c]) => Some(NodeId(u32::from_be_bytes([0, *a, *b, *c]))),
        _ => None,
    };
    let ip = bytes.get(ETHERNET..).filter(|ip| ip.len() >= 20 && bytes[12..ETHERNET] == [8, 0]);
    let Some(ip) = ip else {
        let ip_size = bytes.len().saturating_sub(ETHERNET) as u32;
        return ExternalStackFrame {
            ip_size,
            to: None,
            destination,
            ports: 0,
            ecn: EcnCodepoint::NotEct,
            bytes,
        };
    };
    let above = ip.get(usize::from(ip[0] & 15) * 4..).filter(|above| above.len() >= 4);
    let ports = above.filter(|_| [TCP, UDP].contains(&ip[9])).map(|above| {
        let port = |at: usize| u16::from_be_bytes([above[at], above[at + 1]]);
        (port(0), port(2))
    });
    let to = ports.filter(|_| ip[9] == TCP).and_then(|(from, to)| control::endpoint_key_of_ports(from, to));
    let ports = ports.map_or(0, |(from, to)| u32::from(from) << 16 | u32::from(to));
    let ecn = match ip[1] & 3 {
        0 => EcnCodepoint::NotEct,
        1 => EcnCodepoint::Ect1,
        2 => EcnCodepoint::Ect0,
        _ => EcnCodepoint::Ce,
    };
    let ip_size = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
    ExternalStackFrame { ip_size, to, destination, ports, ecn, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_a_flow_is_known_by_its_ports() {
        let mut frame = vec![2, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0];
        frame.extend([8, 0, 0x45, 2, 0, 40, 0, 1, 0x40, 0, 64, 6, 0x26, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([4, 7, 0, 100]);
        frame.extend([0; 16]);
        let described = describe(frame);
        assert_eq!((described.to, described.ecn, described.ip_size), (Some(15), EcnCodepoint::Ect0, 40));
        assert_eq!((described.destination, described.ports), (Some(NodeId(260)), 0x0407_0064));
        assert_eq!(describe(vec![0; 60]).to, None, "not IP");
    }
}
