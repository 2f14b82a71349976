//! `[record]`: what is written down.

use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::table;
use pauseframe_units::Span;
use std::ops::RangeInclusive;

const INTERVALS: RangeInclusive<Span> = Span::from_ns(1)..=Span::from_secs(3600);
const OFF: Absent = Absent::Off(Origin::Default);

table! {
    /// What is written down
    pub struct RecordSpec {
        /// A row for each flow
        flows: bool = or(true);
        /// A row for each port and priority
        ports: bool = or(true);
        /// Time lines, or false
        series: Option<SeriesSpec> = switchable(OFF, "false", SeriesSpec::read);
        /// A pcapng file, or false
        packets: Option<PacketsSpec> = switchable(OFF, "false", PacketsSpec::read);
        /// Who pauses whom and because of what, or false
        pause_tree: Option<PauseTreeSpec> = switchable(OFF, "false", PauseTreeSpec::read);
        /// What `pauseframe view` plays back, or false
        states: Option<StatesSpec> = switchable(OFF, "false", StatesSpec::read);
        /// Look for deadlocks when a class has been paused for this long
        deadlock_after: Span = or_in(Span::from_ms(1), INTERVALS);
    }
    pub fn read(t);
}

table! {
    /// Time lines: globs over port names and over names of workloads
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
    /// A pcapng file of what passes these ports, each packet once unless `every_hop`
    pub struct PacketsSpec {
        /// Globs over port names; both directions of their links are captured
        ports: Vec<String> = or(everything());
        /// Write a packet at every such port that it crosses, not at the first only: a reader takes its copies for
        /// retransmissions, unless it filters by interface
        every_hop: bool = or(false);
        /// Stop capturing after so many packets
        limit: u64 = or_in(1_000_000, 1..=u64::from(u32::MAX));
    }
    pub fn read(t);
}

table! {
    /// Every pause with what caused it, up to `limit` of them
    #[derive(Copy)]
    pub struct PauseTreeSpec {
        /// Stop recording after so many pauses
        limit: u64 = or_in(1_000_000, 1..=u64::from(u32::MAX - 1));
    }
    pub fn read(t);
}

table! {
    /// What `pauseframe view` plays back: queues and links once in `every`, pauses exactly; up to `limit` changes
    #[derive(Copy)]
    pub struct StatesSpec {
        /// Interval in which queues and links are looked at; pauses have their exact times
        every: Span = or_in(Span::from_us(50), INTERVALS);
        /// Stop recording after so many changes
        limit: u64 = or_in(2_000_000, 1..=u64::from(u32::MAX - 1));
    }
    pub fn read(t);
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}
