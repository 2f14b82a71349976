//! `[record]`: what is written down.

use super::ledger::Origin;
use super::nested::Absent;
use super::reader::Table;
use crate::spec::{PacketsSpec, PauseTreeSpec, RecordSpec, SeriesSpec, StatesSpec};
use pauseframe_units::Span;

pub(crate) fn record(t: &mut Table) -> RecordSpec {
    let everything = || vec!["*".to_owned()];
    RecordSpec {
        flows: t.or("flows", true, "A row for each flow"),
        ports: t.or("ports", true, "A row for each port and priority"),
        series: t.switchable("series", Absent::Off(Origin::Default), "false", "Time lines, or false", |t| {
            SeriesSpec {
                every: t.or_in(
                    "every",
                    Span::from_us(10),
                    Span::from_ns(1)..=Span::from_secs(3600),
                    "Interval of the samples",
                ),
                ports: t.or(
                    "ports",
                    everything(),
                    "Globs over port names (\"edge0:*\"): backlog, throughput, time paused",
                ),
                flows: t.or(
                    "flows",
                    Vec::new(),
                    "Globs over workload names: goodput and the sender's cwnd, ssthresh, srtt, alpha",
                ),
            }
        }),
        packets: t.switchable(
            "packets",
            Absent::Off(Origin::Default),
            "false",
            "A pcapng file, or false",
            |t| PacketsSpec {
                ports: t.or(
                    "ports",
                    everything(),
                    "Globs over port names; both directions of their links are captured",
                ),
                every_hop: t.or(
                    "every_hop",
                    false,
                    "Write a packet at every such port that it crosses, not at the first only: a reader takes its copies for \
                     retransmissions, unless it filters by interface",
                ),
                limit: t.or_in(
                    "limit",
                    1_000_000,
                    1..=u64::from(u32::MAX),
                    "Stop capturing after so many packets",
                ),
            },
        ),
        pause_tree: t.switchable(
            "pause_tree",
            Absent::Off(Origin::Default),
            "false",
            "Who pauses whom and because of what, or false",
            |t| PauseTreeSpec {
                limit: t.or_in(
                    "limit",
                    1_000_000,
                    1..=u64::from(u32::MAX - 1),
                    "Stop recording after so many pauses",
                ),
            },
        ),
        states: t.switchable(
            "states",
            Absent::Off(Origin::Default),
            "false",
            "What `pauseframe view` plays back, or false",
            |t| StatesSpec {
                every: t.or_in(
                    "every",
                    Span::from_us(50),
                    Span::from_ns(1)..=Span::from_secs(3600),
                    "Interval in which queues and links are looked at; pauses have their exact times",
                ),
                limit: t.or_in(
                    "limit",
                    2_000_000,
                    1..=u64::from(u32::MAX - 1),
                    "Stop recording after so many changes",
                ),
            },
        ),
        deadlock_after: t.or_in(
            "deadlock_after",
            Span::from_ms(1),
            Span::from_ns(1)..=Span::from_secs(3600),
            "Look for deadlocks when a class has been paused for this long",
        ),
    }
}
