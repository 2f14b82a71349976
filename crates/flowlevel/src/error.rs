//! Errors about flows and links.

use thiserror::Error;

/// Why rates cannot be computed.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FlowError {
    /// A path uses a port that has no capacity.
    #[error("flow {flow} uses port {port}; there are only {ports}")]
    UnknownPort {
        /// The flow.
        flow: usize,
        /// The port.
        port: u32,
        /// Number of ports with a capacity.
        ports: usize,
    },
    /// A capacity is negative or not finite.
    #[error("the capacity of port {port} is {value}; it must be finite and not negative")]
    Capacity {
        /// The port.
        port: usize,
        /// The value in bits per second.
        value: f64,
    },
    /// A weight is not a positive number.
    #[error("the weight of flow {flow} is {value}; it must be finite and more than zero")]
    Weight {
        /// The flow.
        flow: usize,
        /// The value.
        value: f64,
    },
    /// A rate cap is negative or not a number.
    #[error("the rate cap of flow {flow} is {value}; it must not be negative")]
    Cap {
        /// The flow.
        flow: usize,
        /// The value in bits per second.
        value: f64,
    },
    /// A list has another number of entries than flows.
    #[error("there are {given} {what} for {flows} flows")]
    Length {
        /// Content of the list.
        what: &'static str,
        /// Number of entries.
        given: usize,
        /// Number of flows.
        flows: usize,
    },
}
