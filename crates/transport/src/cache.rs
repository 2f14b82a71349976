//! The connection cache: TCP metrics that a connection saves for the next one to the same peer.
//!
//! Linux 6.1 (`net/ipv4/tcp_metrics.c`): the RTT, which gives the RTO of the first flight; ssthresh only with `tcp_no_ssthresh_metrics_save` = 0.
//! FreeBSD 9 (`tcp_hostcache.c`, `tcp_mss`): RTT, its deviation and ssthresh, averaged with what was known. cee §III-B says of its port that the
//! congestion window is inherited as well: half of the last one, as that kernel has it under `TCP_METRICS_CWND`, but never smaller than without a
//! cache. (The kernel's comment asks for "bigger than RFC3390 suggests". Its code, disabled as broken, has a floor of one segment; a single segment
//! would wait for the delayed ACK of 100 ms, and so for the RTO.) Left out: the reordering metric, expiry (an hour), FreeBSD's minimum of four RTT
//! samples, its rounding of ssthresh to packets, and that it keeps ssthresh only below half of the send buffer.

use crate::config::CachePolicy;
use crate::connection::Connection;
use crate::recovery::RecoveryPhase;
use pauseframe_units::Span;

/// Cached metrics of a peer. Windows in bytes; 0 or zero time: not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CachedTcpMetrics {
    /// Round-trip time.
    pub rtt: Span,
    /// RTT deviation.
    pub rttvar: Span,
    /// Slow start threshold.
    pub ssthresh: u64,
    /// Congestion window.
    pub cwnd: u64,
}

impl Connection {
    /// Applies the metrics of earlier connections to this peer (`tcp_init_metrics`; FreeBSD `cc_conn_init`). Call it once, as soon as the connection is
    /// established.
    pub fn inherit_metrics(&mut self, metrics: &CachedTcpMetrics) {
        let rto = &self.config.rto;
        let sender = &mut self.sender;
        let mss = u64::from(sender.window.mss);
        match self.config.cache {
            CachePolicy::None => {}
            CachePolicy::Linux | CachePolicy::LinuxSsthresh => {
                if metrics.rtt > sender.rtt.srtt().unwrap_or_default() {
                    sender.rtt.inherit_rto(metrics.rtt + (metrics.rtt * 2).max(rto.min), rto);
                }
                if self.config.cache == CachePolicy::LinuxSsthresh && metrics.ssthresh > 0 {
                    sender.window.ssthresh = metrics.ssthresh;
                }
            }
            CachePolicy::Freebsd | CachePolicy::Cee => {
                if metrics.rtt > Span::ZERO {
                    let rttvar = if metrics.rttvar > Span::ZERO { metrics.rttvar } else { metrics.rtt };
                    sender.rtt.inherit_rtt(metrics.rtt, rttvar, rto);
                }
                if metrics.ssthresh > 0 {
                    sender.window.ssthresh = metrics.ssthresh.max(2 * mss);
                }
                if self.config.cache == CachePolicy::Cee && metrics.cwnd > 0 {
                    // After the handshake the window is the initial window, or one segment after a lost SYN.
                    let floor = sender.window.cwnd.max(mss);
                    sender.window.cwnd = (metrics.cwnd / 2).min(u64::from(sender.snd_wnd)).max(floor);
                }
            }
        }
    }

    /// Saves the metrics of this connection for its peer.
    pub fn cache_metrics(&self, metrics: &mut CachedTcpMetrics) {
        match self.config.cache {
            CachePolicy::None => {}
            CachePolicy::Linux | CachePolicy::LinuxSsthresh => self.cache_like_linux(metrics),
            CachePolicy::Freebsd | CachePolicy::Cee => self.cache_like_freebsd(metrics),
        }
    }

    /// `tcp_update_metrics`.
    fn cache_like_linux(&self, metrics: &mut CachedTcpMetrics) {
        let Some(srtt) = self.srtt() else { return };
        // A longer RTT replaces the old one; a shorter one changes it by an eighth.
        let shorter = metrics.rtt.0.saturating_sub(srtt.0);
        metrics.rtt = if shorter == 0 { srtt } else { Span(metrics.rtt.0 - shorter / 8) };
        let deviation = Span(shorter / 2).max(self.sender.rtt.rttvar());
        metrics.rttvar = if deviation >= metrics.rttvar {
            deviation
        } else {
            Span(metrics.rttvar.0 - (metrics.rttvar.0 - deviation.0) / 4)
        };
        let (cwnd, ssthresh) = (self.cwnd(), self.ssthresh());
        if ssthresh == u64::MAX {
            // The connection is still in its first slow start.
            if metrics.ssthresh > 0 {
                metrics.ssthresh = metrics.ssthresh.max(cwnd / 2);
            }
            metrics.cwnd = metrics.cwnd.max(cwnd);
        } else if cwnd >= ssthresh && self.sender.phase == RecoveryPhase::Open {
            metrics.ssthresh = (cwnd / 2).max(ssthresh);
            metrics.cwnd = average_or_new(metrics.cwnd, cwnd);
        } else {
            metrics.cwnd = average_or_new(metrics.cwnd, ssthresh);
            if metrics.ssthresh > 0 {
                metrics.ssthresh = metrics.ssthresh.max(ssthresh);
            }
        }
    }

    /// `tcp_discardcb` and `tcp_hc_update`.
    fn cache_like_freebsd(&self, metrics: &mut CachedTcpMetrics) {
        let Some(srtt) = self.srtt() else { return };
        metrics.rtt = Span(average_or_new(metrics.rtt.0, srtt.0));
        metrics.rttvar = Span(average_or_new(metrics.rttvar.0, self.sender.rtt.rttvar().0));
        if self.ssthresh() != u64::MAX {
            metrics.ssthresh = average_or_new(metrics.ssthresh, self.ssthresh());
        }
        metrics.cwnd = average_or_new(metrics.cwnd, self.cwnd());
    }
}

/// The mean of the known and the new value, or the new value if none is known.
fn average_or_new(known: u64, new: u64) -> u64 {
    if known == 0 { new } else { known / 2 + new / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TcpConfig;
    use pauseframe_units::Time;
    use std::sync::Arc;

    const NOTHING: CachedTcpMetrics =
        CachedTcpMetrics { rtt: Span::ZERO, rttvar: Span::ZERO, ssthresh: 0, cwnd: 0 };

    fn inherit(cache: CachePolicy, metrics: CachedTcpMetrics) -> Connection {
        let config = TcpConfig { cache, mss: 1000, initial_window: 4000, ..TcpConfig::PLAIN };
        let mut connection = Connection::open(Arc::new(config), 1, 2, Time::ZERO);
        connection.inherit_metrics(&metrics);
        connection
    }

    /// The RTO is at least a second (`TcpConfig::PLAIN`): FreeBSD adds four deviations, Linux twice the RTT or the minimum.
    #[test]
    fn a_known_round_trip_gives_the_first_timeout() {
        let rto = |cache, rtt_ms, rttvar_ms| {
            let (rtt, rttvar) = (Span::from_ms(rtt_ms), Span::from_ms(rttvar_ms));
            let connection = inherit(cache, CachedTcpMetrics { rtt, rttvar, ssthresh: 3000, ..NOTHING });
            (connection.rto(), connection.srtt())
        };
        let (one, none) = (Span::from_secs(1), None);
        for cache in [CachePolicy::Freebsd, CachePolicy::Cee] {
            assert_eq!(rto(cache, 1000, 100), (Span::from_ms(1400), Some(one)));
            assert_eq!(rto(cache, 1000, 0), (Span::from_ms(5000), Some(one)));
            assert_eq!(rto(cache, 0, 100), (one, none));
        }
        for cache in [CachePolicy::Linux, CachePolicy::LinuxSsthresh] {
            assert_eq!(rto(cache, 1000, 100), (Span::from_ms(3000), none));
            assert_eq!(rto(cache, 100, 100), (Span::from_ms(1100), none));
            assert_eq!(rto(cache, 0, 100), (one, none));
        }
        assert_eq!(rto(CachePolicy::None, 5000, 100), (one, none));
    }

    #[test]
    fn windows_are_inherited_within_their_bounds() {
        use CachePolicy::{Cee, Freebsd, Linux, LinuxSsthresh};
        for (cache, ssthresh, cwnd, expected) in [
            (Linux, 5000, 50_000, (u64::MAX, 4000)),
            (LinuxSsthresh, 5000, 50_000, (5000, 4000)),
            (LinuxSsthresh, 0, 50_000, (u64::MAX, 4000)),
            (Freebsd, 5000, 50_000, (5000, 4000)),
            // Two segments at least; nothing known changes nothing.
            (Freebsd, 1, 0, (2000, 4000)),
            (Freebsd, 0, 0, (u64::MAX, 4000)),
            // Half of the last window, from the first one to the peer's, which is 2^24 bytes.
            (Cee, 5000, 50_000, (5000, 25_000)),
            (Cee, 5000, 6000, (5000, 4000)),
            (Cee, 5000, 1 << 30, (5000, 1 << 24)),
        ] {
            let metrics = CachedTcpMetrics { rtt: Span::from_ms(1), ssthresh, cwnd, ..NOTHING };
            let connection = inherit(cache, metrics);
            assert_eq!((connection.ssthresh(), connection.cwnd()), expected, "{cache:?} {ssthresh} {cwnd}");
        }
    }

    /// Linux's `tcp_update_metrics`: a window below ssthresh, or one in a recovery, says nothing; ssthresh takes its place.
    #[test]
    fn linux_keeps_windows_of_congestion_avoidance_only() {
        use RecoveryPhase::{Open, Recovery};
        for (phase, cwnd, ssthresh, kept) in
            [(Open, 8000, 6000, 8000), (Open, 4000, 6000, 6000), (Recovery, 8000, 6000, 6000)]
        {
            let mut connection = inherit(CachePolicy::Linux, NOTHING);
            let sender = &mut connection.sender;
            sender.rtt.add_sample(Span::from_ms(1), &connection.config.rto);
            (sender.phase, sender.window.cwnd, sender.window.ssthresh) = (phase, cwnd, ssthresh);
            let mut metrics = NOTHING;
            connection.cache_metrics(&mut metrics);
            assert_eq!(metrics.cwnd, kept, "{phase:?} {cwnd}");
        }
    }

    /// `tcp_update_metrics`: of a window in congestion avoidance half is the next threshold, but not less than the last one.
    #[test]
    fn linux_keeps_half_of_a_window_as_threshold() {
        for (cwnd, ssthresh, kept) in [(8000, 3000, 4000), (8000, 6000, 6000), (6000, 6000, 6000)] {
            let mut connection = inherit(CachePolicy::LinuxSsthresh, NOTHING);
            let sender = &mut connection.sender;
            sender.rtt.add_sample(Span::from_ms(1), &connection.config.rto);
            (sender.window.cwnd, sender.window.ssthresh) = (cwnd, ssthresh);
            let mut metrics = NOTHING;
            connection.cache_metrics(&mut metrics);
            assert_eq!(metrics.ssthresh, kept, "{cwnd} {ssthresh}");
        }
    }

    /// `tcp_hc_update`: the mean of the known value and the new one; a connection in its first slow start has no threshold to tell.
    #[test]
    fn freebsd_keeps_the_mean_with_what_it_knew() {
        for (known, ssthresh, kept) in
            [(4000, u64::MAX, 4000), (4000, 6000, 5000), (0, 6000, 6000), (0, u64::MAX, 0)]
        {
            let mut connection = inherit(CachePolicy::Freebsd, NOTHING);
            let sender = &mut connection.sender;
            sender.rtt.add_sample(Span::from_ms(1), &connection.config.rto);
            sender.window.ssthresh = ssthresh;
            let mut metrics = CachedTcpMetrics { ssthresh: known, ..NOTHING };
            connection.cache_metrics(&mut metrics);
            assert_eq!((metrics.ssthresh, metrics.rtt), (kept, Span::from_ms(1)), "{known} {ssthresh}");
        }
    }
}
