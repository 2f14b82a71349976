//! `[qcn]`: quantized congestion notification (IEEE 802.1Qau), by presets.

use crate::presets::QCN_PRESETS;
use pauseframe_schema::bounds::Each;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_units::{BitRate, Bytes, Span};
use std::ops::RangeInclusive;

const RATES: RangeInclusive<BitRate> = BitRate(1000)..=BitRate::gbps(10_000);
const SIZES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1_000_000_000);

table! {
    /// Quantized congestion notification (IEEE 802.1Qau): a preset's values with the changes of the file
    #[source = "IEEE 802.1Qau"]
    pub struct QcnSpec {
        /// Source of this table's defaults: IEEE 802.1Q (standard), or cee Table I with Q_eq 20 KB (qcn20) or 66 KB
        /// (qcn66)
        preset: String = or_row(QCN_PRESETS, "standard");
        /// Priorities whose egress queues are congestion points
        priorities: Option<Vec<u8>> = optional_in(Each(0..=7), "all but cnm_priority");
        /// Priority of the CNMs
        cnm_priority: u8 = or_in(7, 0..=7) => {
            let itself = priorities.as_ref().is_some_and(|list: &Vec<u8>| list.contains(&cnm_priority));
            t.check(!itself, "priorities", || format!("{cnm_priority} is that of the CNMs"), "CNMs are not sampled");
        };
        /// Set point of the queue at a congestion point
        q_eq: Bytes = or_in(Bytes::kb(26), SIZES);
        /// Weight of the queue's growth in the feedback
        w: f64 = or_in(2.0, 0.0..=64.0);
        /// Bytes between two samples without congestion
        sample: Bytes = or_in(Bytes::kb(150), SIZES);
        /// Intervals and cycles are uniform within this share of their mean
        jitter: f64 = or_in(0.15, 0.0..=0.9);
        /// Decrease of a limiter's rate per step of the six-bit feedback, as a fraction
        g_d: f64 = or_in(1.0 / 128.0, 0.0..=1.0);
        /// Smallest factor of one rate decrease
        min_decrease: f64 = or_in(0.5, 0.0..=1.0);
        /// Cycles of fast recovery
        fast_recovery: u32 = or_in(5, 1..=1000);
        /// Growth of the target rate per cycle after fast recovery
        active_increase: BitRate = or_in(BitRate(5_000_000), RATES);
        /// Growth of the target rate when byte counter and timer are both past fast recovery, per cycle beyond
        hyper_active_increase: BitRate = or_in(BitRate(50_000_000), RATES);
        /// Bytes per cycle of the byte counter
        byte_counter: Bytes = or_in(Bytes::kb(150), SIZES);
        /// Duration of a cycle of the timer
        timer: Span = or_in(Span::from_ms(15), Span::from_ns(1)..=Span::from_secs(10));
        /// Divide a target rate above ten times the current rate by eight after the first cycle
        extra_fast_recovery: bool = or(true);
        /// Minimum rate of a limiter
        min_rate: BitRate = or_in(BitRate(5_000_000), RATES);
    }
    pub fn read(t);
}

impl QcnSpec {
    /// The priority of its notifications.
    pub(crate) fn priority(&self) -> u8 {
        self.cnm_priority
    }
}

/// `[qcn]`, or none.
pub(crate) fn qcn_or_none(t: &mut Table) -> Option<QcnSpec> {
    let doc = "Quantized congestion notification (IEEE 802.1Qau) in all switches and NICs, or false; a text alone names the \
               preset";
    t.switchable("qcn", Absent::Off(Origin::Default), "false", doc, QcnSpec::read)
}
