//! Clock ticks of hosts. Timers expire on ticks (`rto_granularity`, a jiffy in Linux), and each host's clock has its own phase. With one phase for
//! all, all hosts of an incast would retransmit, and lose, their packets together. Left out: drift; cubic's clock and timestamps count from zero
//! everywhere.

use crate::context::Context;
use pauseframe_engine::random_stream;
use pauseframe_transport::{CLOCK_PERIOD_TICKS, RtoConfig, TcpConfig};
use pauseframe_units::{NodeId, Span};
use std::sync::Arc;

impl Context {
    /// The TCP settings of `transport` with the clock phase and the initial window of `host`.
    pub(super) fn host_tcp_config(&self, host: NodeId, transport: u16) -> Arc<TcpConfig> {
        let config =
            self.settings.transports[usize::from(transport)].tcp().expect("a flow of TCP has its settings");
        let own = self.settings.initial_windows.get(&(transport, host));
        let own =
            own.map(|window| Arc::new(TcpConfig { initial_window: *window, ..TcpConfig::clone(config) }));
        let config = own.as_ref().unwrap_or(config);
        if !self.settings.ticks_apart || config.rto.granularity.0 <= 1 {
            return Arc::clone(config);
        }
        let phase = clock_phase(self.settings.seed, host, config.rto.granularity);
        Arc::new(TcpConfig { rto: RtoConfig { phase, ..config.rto }, ..TcpConfig::clone(config) })
    }
}

/// Phase of a host's clock, uniform over the clock period and equal for all its connections.
fn clock_phase(seed: u64, host: NodeId, granularity: Span) -> Span {
    Span(random_stream(seed, "ticks", u64::from(host.0)).uniform_below(CLOCK_PERIOD_TICKS * granularity.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_spread_over_ticks_and_periods_and_belong_to_the_host() {
        let tick = Span::from_ms(1);
        let phases: Vec<u64> = (0..1000).map(|host| clock_phase(7, NodeId(host), tick).0).collect();
        assert!(phases.iter().all(|phase| *phase < CLOCK_PERIOD_TICKS * tick.0));
        // 250 expected in each quarter, standard deviation 13.7.
        let even = |period: u64| {
            (0..4).all(|q| {
                phases.iter().filter(|phase| **phase % period * 4 / period == q).count().abs_diff(250) < 60
            })
        };
        assert!(even(tick.0) && even(8 * tick.0) && even(CLOCK_PERIOD_TICKS * tick.0), "{phases:?}");
        assert_eq!(clock_phase(7, NodeId(3), tick).0, phases[3]);
    }
}
