//! Clock ticks of hosts: timers fall on ticks (`rto_granularity`, a jiffy of Linux), and each host's clock ticks at moments
//! of its own. Were they the same for all, the retransmissions of all hosts of an incast would leave together, to be dropped
//! together. Left out: drift; cubic's clock and timestamps count from zero everywhere.

use crate::context::Context;
use pauseframe_engine::stream;
use pauseframe_transport::{CLOCK_PERIOD, Config, RtoConfig};
use pauseframe_units::{NodeId, Span};
use std::sync::Arc;

impl Context {
    /// The settings of a connection of `transport` at `host`.
    pub(super) fn config_at(&self, host: NodeId, transport: u16) -> Arc<Config> {
        let config = &self.settings.transports[usize::from(transport)].config;
        if !self.settings.ticks_apart || config.rto.granularity.0 <= 1 {
            return Arc::clone(config);
        }
        let phase = phase(self.settings.seed, host, config.rto.granularity);
        Arc::new(Config { rto: RtoConfig { phase, ..config.rto }, ..Config::clone(config) })
    }
}

/// When the clock of a host is at zero, the same for all its connections: uniform over the period of a clock.
fn phase(seed: u64, host: NodeId, granularity: Span) -> Span {
    Span(stream(seed, "ticks", u64::from(host.0)).below(CLOCK_PERIOD * granularity.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_spread_over_ticks_and_periods_and_belong_to_the_host() {
        let tick = Span::from_ms(1);
        let phases: Vec<u64> = (0..1000).map(|host| phase(7, NodeId(host), tick).0).collect();
        assert!(phases.iter().all(|phase| *phase < CLOCK_PERIOD * tick.0));
        // 250 expected in each quarter, standard deviation 13.7.
        let even = |period: u64| {
            (0..4).all(|q| {
                phases.iter().filter(|phase| **phase % period * 4 / period == q).count().abs_diff(250) < 60
            })
        };
        assert!(even(tick.0) && even(8 * tick.0) && even(CLOCK_PERIOD * tick.0), "{phases:?}");
        assert_eq!(phase(7, NodeId(3), tick).0, phases[3]);
    }
}
