//! Summarises the rates of flows.

use crate::Paths;

/// Rates of flows and the resulting load of the links.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The rate of each flow in bits per second.
    pub rates: Vec<f64>,
    /// For each port, the fraction of its capacity in use; 0 for a port without capacity.
    pub utilisation: Vec<f64>,
    /// The sum of all rates divided by the number of hosts, in bits per second.
    pub throughput: f64,
}

impl Report {
    /// Summarises `rates` of flows on `paths` for `hosts` hosts.
    ///
    /// # Panics
    /// If the number of rates differs from the number of paths, or a path uses a port without a capacity.
    pub fn new(capacity: &[f64], paths: &Paths, rates: Vec<f64>, hosts: usize) -> Report {
        assert!(rates.len() == paths.len(), "{} rates for {} paths", rates.len(), paths.len());
        let mut used = vec![0.0; capacity.len()];
        for (path, rate) in paths.iter().zip(&rates) {
            for port in path {
                used[port.0 as usize] += rate;
            }
        }
        let part = |(used, capacity): (f64, &f64)| if *capacity > 0.0 { used / capacity } else { 0.0 };
        let utilisation = used.into_iter().zip(capacity).map(part).collect();
        let throughput = rates.iter().sum::<f64>() / hosts.max(1) as f64;
        Report { rates, utilisation, throughput }
    }
}
