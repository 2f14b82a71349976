//! Errors in the properties of flows and links.

use thiserror::Error;

/// Reasons why rates cannot be computed.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FlowError {
    /// A path contains a port without a capacity.
    #[error("flow {flow} uses port {port}; there are only {ports}")]
    UnknownPort {
        /// Index of the flow.
        flow: usize,
        /// Number of the port.
        port: u32,
        /// Number of ports that have a capacity.
        ports: usize,
    },
    /// A capacity is negative or not finite.
    #[error("the capacity of port {port} is {value}; it must be finite and not negative")]
    Capacity {
        /// Number of the port.
        port: usize,
        /// The capacity that was given, in bits per second.
        value: f64,
    },
    /// A weight is not a positive number.
    #[error("the weight of flow {flow} is {value}; it must be finite and more than zero")]
    Weight {
        /// Index of the flow.
        flow: usize,
        /// The weight that was given.
        value: f64,
    },
    /// A rate cap is negative or not a number.
    #[error("the rate cap of flow {flow} is {value}; it must not be negative")]
    Cap {
        /// Index of the flow.
        flow: usize,
        /// The cap that was given, in bits per second.
        value: f64,
    },
    /// The length of a list differs from the number of flows.
    #[error("there are {given} {what} for {flows} flows")]
    Length {
        /// The meaning of the list's entries.
        what: &'static str,
        /// Number of entries in the list.
        given: usize,
        /// Number of flows.
        flows: usize,
    },
}
