//! The tables `kernel_sockets` and `kernel_counters`: samples of a Linux kernel.

use super::column::{Columns, dictionary, dictionary_of, f64s, optional, u32s, u64s};
use super::rows::Names;
use crate::columns;
use arrow_array::{ArrayRef, UInt32Array};
use pauseframe_fabric::{ExternalCounterSample, ExternalSocketSample};
use std::sync::Arc;

/// `enum` of `include/net/tcp_states.h`, from 1 on, as `ss` spells them.
const STATES: [&str; 11] = [
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "UNCONN",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
];
/// `enum tcp_ca_state`.
const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];
/// A slow start threshold that was never set (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u32 = 0x7fff_ffff;

fn name(names: &[&str], index: usize) -> String {
    names.get(index).map_or_else(|| index.to_string(), |name| (*name).to_owned())
}

/// The `kernel_sockets` table, with one row for each socket and sample.
pub fn sockets(samples: &[ExternalSocketSample], names: &Names) -> Columns {
    let node = |node| names.topology.nodes()[node].name.clone();
    let of = |value: fn(&ExternalSocketSample) -> u32| u32s(samples.iter().map(value));
    let flow = |sample: &ExternalSocketSample| sample.endpoint_key.map(|endpoint_key| endpoint_key / 2);
    let flows: ArrayRef = Arc::new(samples.iter().map(flow).collect::<UInt32Array>());
    let controls = samples.iter().map(|sample| sample.congestion_control.as_str());
    columns! {
        /// Time of the sample
        time_us = f64s(samples.iter().map(|sample| sample.time.as_us_f64()));
        /// Host of the socket
        node = dictionary(samples, |sample| sample.host, node);
        /// Its port
        port = of(|sample| u32::from(sample.port));
        /// The other host
        peer = dictionary(samples, |sample| sample.peer, node);
        /// Its port
        peer_port = of(|sample| u32::from(sample.peer_port));
        /// The flow that opened the connection; null for a program
        flow or null = flows;
        /// State of the connection, as `ss` spells it
        state = dictionary(samples, |sample| sample.state, |state| name(&STATES, usize::from(state).wrapping_sub(1)));
        /// Congestion control
        congestion_control = dictionary_of(controls, ToOwned::to_owned);
        /// State of loss recovery
        ca_state = dictionary(samples, |sample| sample.ca_state, |state| name(&CA_STATES, usize::from(state)));
        /// Congestion window
        cwnd_segments = of(|sample| sample.cwnd);
        /// Slow start threshold; null before it was set
        ssthresh_segments or null = optional(samples.iter().map(|sample| {
            (sample.ssthresh < INFINITE).then(|| f64::from(sample.ssthresh))
        }));
        /// Largest segment that it sends
        mss_bytes = of(|sample| sample.mss);
        /// Smoothed round-trip time
        srtt_us = of(|sample| sample.srtt_us);
        /// Variation of the round-trip time
        rttvar_us = of(|sample| sample.rttvar_us);
        /// Retransmission timeout
        rto_us = of(|sample| sample.rto_us);
        /// Segments that are not acknowledged
        unacked_segments = of(|sample| sample.unacked);
        /// Segments sent again so far
        retransmits = of(|sample| sample.retransmits);
        /// Bytes acknowledged so far
        acked_bytes = u64s(samples.iter().map(|sample| sample.acked_bytes));
        /// Bytes received in order so far
        received_bytes = u64s(samples.iter().map(|sample| sample.received_bytes));
        /// Bytes written that are not acknowledged
        send_queue_bytes = of(|sample| sample.send_queue_bytes);
        /// DCTCP: its estimate of the marked fraction; null for other congestion controls
        alpha or null = optional(samples.iter().map(|sample| sample.alpha));
    }
}

/// The `kernel_counters` table, with one row for each counter that has changed since the sample before.
pub fn counters(samples: &[ExternalCounterSample], names: &Names) -> Columns {
    let node = |node| names.topology.nodes()[node].name.clone();
    columns! {
        /// Time of the sample
        time_us = f64s(samples.iter().map(|sample| sample.time.as_us_f64()));
        /// Host
        node = dictionary(samples, |sample| sample.host, node);
        /// Name of the counter, as `nstat` spells it
        counter = dictionary_of(samples.iter().map(|sample| sample.name.as_str()), ToOwned::to_owned);
        /// Its value since the host has started
        value = u64s(samples.iter().map(|sample| sample.value));
    }
}
