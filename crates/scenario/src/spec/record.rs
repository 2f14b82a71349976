//! `[record]`: the records.

use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::table;
use pauseframe_units::Span;
use std::ops::RangeInclusive;

const INTERVALS: RangeInclusive<Span> = Span::from_ns(1)..=Span::from_secs(3600);
pub(crate) const DEADLOCK_AFTER: Span = Span::from_ms(1);
const OFF: Absent = Absent::Off(Origin::Default);

table! {
    /// The records
    pub struct RecordSpec {
        /// Write one row per flow
        flows: bool = or(true);
        /// Write one row per port and priority
        ports: bool = or(true);
        /// Time series of ports and flows, or false
        series: Option<SeriesSpec> = switchable(OFF, "false", SeriesSpec::read);
        /// Packet capture (pcapng), or false
        packets: Option<PacketsSpec> = switchable(OFF, "false", PacketsSpec::read);
        /// Table of pauses with their causes, or false
        pause_tree: Option<PauseTreeSpec> = switchable(OFF, "false", PauseTreeSpec::read);
        /// Log for `pauseframe view`, or false
        states: Option<StatesSpec> = switchable(OFF, "false", StatesSpec::read);
        /// Table of what flows send through each port of switches, in which order, for each queue pair; about 150 bytes of memory a row
        paths: bool = or(false);
        /// Samples of the sockets and counters of hosts with a Linux kernel, or false
        kernel: Option<KernelRecordSpec> = switchable(OFF, "false", KernelRecordSpec::read);
        /// Look for deadlocks when a class has been paused for this long
        deadlock_after: Span = or_in(DEADLOCK_AFTER, INTERVALS);
    }
    pub fn read(t);
}

table! {
    /// Time series: globs over port names and over names of workloads
    pub struct SeriesSpec {
        /// Interval of the samples
        every: Span = or_in(Span::from_us(10), INTERVALS);
        /// Globs over port names ("edge0:*"): backlog, throughput, time paused
        ports: Vec<String> = or(everything());
        /// Globs over workload names: goodput and the sender's cwnd, ssthresh, srtt, alpha
        flows: Vec<String> = or(Vec::new());
    }
    pub fn read(t);
}

table! {
    /// A pcapng file of the packets at these ports, each packet once unless `every_hop`
    pub struct PacketsSpec {
        /// Globs over port names; both directions of their links are captured
        ports: Vec<String> = or(everything());
        /// Capture a packet at every matching port that it crosses, not only at the first. Filter by interface, or
        /// Wireshark takes the copies for retransmissions
        every_hop: bool = or(false);
        /// Maximum number of captured packets
        limit: u64 = or_in(1_000_000, 1..=u64::from(u32::MAX));
    }
    pub fn read(t);
}

table! {
    /// Pauses with their causes, up to `limit` of them
    #[derive(Copy)]
    pub struct PauseTreeSpec {
        /// Maximum number of recorded pauses
        limit: u64 = or_in(1_000_000, 1..=u64::from(u32::MAX - 1));
    }
    pub fn read(t);
}

table! {
    /// The log for `pauseframe view`: queues and links every `every`, pauses exactly; up to `limit` changes
    #[derive(Copy)]
    pub struct StatesSpec {
        /// Sampling interval of queues and links; pauses are exact
        every: Span = or_in(Span::from_us(50), INTERVALS);
        /// Maximum number of recorded changes
        limit: u64 = or_in(2_000_000, 1..=u64::from(u32::MAX - 1));
    }
    pub fn read(t);
}

table! {
    /// Samples of hosts with a Linux kernel: each TCP socket, as `ss -ti` shows it, and the counters of `nstat`
    #[derive(Copy)]
    pub struct KernelRecordSpec {
        /// Interval of the samples
        every: Span = or_in(Span::from_ms(1), INTERVALS);
    }
    pub fn read(t);
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}
